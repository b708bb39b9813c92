/* Matrix products in three loop orders, with accessor functions, in double and in int, and a power iteration.
   Input: small integers, so that sums in double are exact. */
#define N 36

static double A[N * N], B[N * N], C[N * N], x[N], y[N];
static int P[N * N], Q[N * N], R[N * N];

static double get(const double *m, int n, int i, int j) { return m[i * n + j]; }

static void put(double *m, int n, int i, int j, double value) { m[i * n + j] = value; }

static void make_inputs(int shift)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            put(A, N, i, j, (double)((i * 7 + j * 3 + shift) % 11 - 5));
            put(B, N, i, j, (double)((i * 5 + j + shift) % 13 - 6));
            P[i * N + j] = (i + j * shift) % 9 - 4;
            Q[i * N + j] = (i * j + shift) % 7 - 3;
        }
}

/* Row times column. */
static void multiply(const double *a, const double *b, double *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0.0;
            for (int k = 0; k < n; k++)
                sum += get(a, n, i, k) * get(b, n, k, j);
            put(c, n, i, j, sum);
        }
}

/* Rows added to rows, with an optional scale. */
static void multiply_rows(const double *a, const double *b, double *c, int n, int scaled, double scale)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            put(c, n, i, j, 0.0);
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++) {
                double term = get(a, n, i, k) * get(b, n, k, j);
                if (scaled)
                    term *= scale;
                put(c, n, i, j, get(c, n, i, j) + term);
            }
    }
}

/* Row times row, in integers. */
static void multiply_transposed(const int *p, const int *q, int *r, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int sum = 0;
            for (int k = 0; k < n; k++)
                sum += p[i * n + k] * q[j * n + k];
            r[i * n + j] = sum;
        }
}

static double largest(const double *v, int n)
{
    double best = 0.0;
    for (int i = 0; i < n; i++) {
        double size = v[i] < 0.0 ? -v[i] : v[i];
        if (size > best)
            best = size;
    }
    return best;
}

static double iterate(const double *m, int n, int rounds)
{
    double norm = 1.0;
    for (int i = 0; i < n; i++)
        x[i] = 1.0 + (double)i / n;
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < n; i++) {
            double sum = 0.0;
            for (int j = 0; j < n; j++)
                sum += get(m, n, i, j) * x[j];
            y[i] = sum;
        }
        norm = largest(y, n);
        for (int i = 0; i < n; i++)
            x[i] = y[i] / (norm + 1.0);
    }
    return norm;
}

unsigned long work(void)
{
    long sum = 0;
    for (int round = 1; round < 4; round++) {
        make_inputs(round);
        multiply(A, B, C, N);
        for (int i = 0; i < N * N; i++)
            sum += (long)C[i] * (i % 5);
        multiply_rows(A, C, B, N, round == 2, 0.5);
        multiply_transposed(P, Q, R, N);
        for (int i = 0; i < N * N; i++)
            sum += (long)(2.0 * B[i]) * (i % 3) + R[i];
        sum += (long)iterate(A, N, 10);
    }
    return (unsigned long)sum & 0xffffffffUL;
}
