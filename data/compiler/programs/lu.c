/* Linear equations: LU decomposition with row exchanges, forward and back substitution, one step of refinement, and
   the determinant's sign. Input: diagonally heavy matrices of small integers. Double precision. */
#define N 40

static double matrix[N][N], factor[N][N], right[N], solution[N], rest[N], step[N];
static int order[N];

static double absolute(double x)
{
    return x < 0.0 ? -x : x;
}

static void make_system(int shift)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            matrix[i][j] = (double)((i * 13 + j * 7 + shift * (i ^ j)) % 17 - 8) + (i == j ? 20.0 : 0.0);
        right[i] = (double)((i * shift) % 19 - 9);
    }
}

static int find_pivot(int column)
{
    int best = column;
    for (int i = column + 1; i < N; i++)
        if (absolute(factor[i][column]) > absolute(factor[best][column]))
            best = i;
    return best;
}

static void exchange_rows(int a, int b)
{
    for (int j = 0; j < N; j++) {
        double t = factor[a][j];
        factor[a][j] = factor[b][j];
        factor[b][j] = t;
    }
    int t = order[a];
    order[a] = order[b];
    order[b] = t;
}

/* Returns the sign of the permutation. */
static int decompose(void)
{
    int sign = 1;
    for (int i = 0; i < N; i++) {
        order[i] = i;
        for (int j = 0; j < N; j++)
            factor[i][j] = matrix[i][j];
    }
    for (int k = 0; k < N; k++) {
        int p = find_pivot(k);
        if (p != k) {
            exchange_rows(p, k);
            sign = -sign;
        }
        for (int i = k + 1; i < N; i++) {
            factor[i][k] = factor[i][k] / factor[k][k];
            for (int j = k + 1; j < N; j++)
                factor[i][j] -= factor[i][k] * factor[k][j];
        }
    }
    return sign;
}

static void substitute(const double *b, double *out)
{
    for (int i = 0; i < N; i++) {
        double sum = b[order[i]];
        for (int j = 0; j < i; j++)
            sum -= factor[i][j] * out[j];
        out[i] = sum;
    }
    for (int i = N - 1; i >= 0; i--) {
        double sum = out[i];
        for (int j = i + 1; j < N; j++)
            sum -= factor[i][j] * out[j];
        out[i] = sum / factor[i][i];
    }
}

static void residual(void)
{
    for (int i = 0; i < N; i++) {
        rest[i] = right[i];
        for (int j = 0; j < N; j++)
            rest[i] -= matrix[i][j] * solution[j];
    }
}

unsigned long work(void)
{
    unsigned long sum = 0;
    for (int round = 1; round < 6; round++) {
        make_system(round);
        int sign = decompose();
        for (int i = 0; i < N; i++)
            if (factor[i][i] < 0.0)
                sign = -sign;
        substitute(right, solution);
        residual();
        substitute(rest, step);
        for (int i = 0; i < N; i++)
            sum = sum * 3 + (unsigned long)(long)((solution[i] + step[i]) * 100000.0);
        sum += (unsigned long)(sign + 1);
    }
    return sum & 0xffffffffUL;
}
