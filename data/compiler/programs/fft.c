/* Fast Fourier transform, radix two in place, forward and back, with a band stop between.
   Complex numbers are structures handled by small functions; twiddle factors come from halving angles. Double. */
#define POINTS 512
#define STAGES 9

struct complex { double re, im; };

static struct complex data[POINTS], twiddle[POINTS / 2];

static struct complex make(double re, double im)
{
    struct complex z = {re, im};
    return z;
}

static struct complex add(struct complex a, struct complex b) { return make(a.re + b.re, a.im + b.im); }

static struct complex subtract(struct complex a, struct complex b) { return make(a.re - b.re, a.im - b.im); }

static struct complex multiply(struct complex a, struct complex b)
{
    return make(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

static struct complex conjugate(struct complex a) { return make(a.re, -a.im); }

/* Square root by Newton's steps; fixed number of them, so that every build does the same. */
static double root(double x)
{
    double r = x > 1.0 ? x : 1.0;
    for (int i = 0; i < 12; i++)
        r = 0.5 * (r + x / r);
    return r;
}

/* The primitive root exp(-2 pi i / n) from exp(-i pi) by half-angle formulas, then its powers by repeated products. */
static void make_twiddles(int n)
{
    double c = -1.0, s = 0.0;
    for (int k = 2; k < n; k *= 2) {
        double half_c = root((1.0 + c) / 2.0);
        s = k == 2 ? 1.0 : s / (2.0 * half_c);
        c = k == 2 ? 0.0 : half_c;
    }
    struct complex step = make(c, -s), w = make(1.0, 0.0);
    for (int k = 0; k < n / 2; k++) {
        twiddle[k] = w;
        w = multiply(w, step);
    }
}

static int reverse_bits(int i, int bits)
{
    int r = 0;
    for (int b = 0; b < bits; b++)
        r |= ((i >> b) & 1) << (bits - 1 - b);
    return r;
}

static void permute(struct complex *z, int n, int bits)
{
    for (int i = 0; i < n; i++) {
        int j = reverse_bits(i, bits);
        if (i < j) {
            struct complex t = z[i];
            z[i] = z[j];
            z[j] = t;
        }
    }
}

static void transform(struct complex *z, int n, int bits, int backward)
{
    permute(z, n, bits);
    for (int half = 1; half < n; half *= 2)
        for (int start = 0; start < n; start += 2 * half)
            for (int k = 0; k < half; k++) {
                struct complex w = twiddle[k * (n / (2 * half))];
                if (backward)
                    w = conjugate(w);
                struct complex t = multiply(w, z[start + k + half]);
                z[start + k + half] = subtract(z[start + k], t);
                z[start + k] = add(z[start + k], t);
            }
    if (backward)
        for (int i = 0; i < n; i++)
            z[i] = make(z[i].re / n, z[i].im / n);
}

static void make_data(unsigned seed)
{
    for (int i = 0; i < POINTS; i++) {
        seed = seed * 69069u + 1u;
        data[i] = make((double)(i % 32) / 16.0 - 1.0, (double)(seed >> 24) / 256.0);
    }
}

static void stop_band(struct complex *z, int n, int low, int high)
{
    for (int i = 0; i < n; i++) {
        int f = i < n - i ? i : n - i;
        if (f >= low && f < high)
            z[i] = make(0.0, 0.0);
    }
}

unsigned long work(void)
{
    unsigned long sum = 0;
    make_twiddles(POINTS);
    for (int round = 0; round < 5; round++) {
        make_data(5u + (unsigned)round);
        transform(data, POINTS, STAGES, 0);
        stop_band(data, POINTS, 20, 40 + 10 * round);
        transform(data, POINTS, STAGES, 1);
        for (int i = 0; i < POINTS; i++)
            sum = sum * 5 + (unsigned long)(long)((data[i].re + 2.0 * data[i].im) * 1000.0);
    }
    return sum & 0xffffffffUL;
}
