/* Finite impulse response filters: a symmetric low-pass on a long signal, straight and folded, then decimation.
   Input: two square waves and noise, single precision. */
#define SAMPLES 1024
#define TAPS 32

static float signal[SAMPLES + TAPS], smooth[SAMPLES], folded[SAMPLES], small[SAMPLES / 4], taps[TAPS];

static float noise(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return (float)((*state >> 16) & 1023u) / 1024.0f - 0.5f;
}

static float square_wave(int i, int period)
{
    return (i / period) % 2 ? 1.0f : -1.0f;
}

static void make_signal(unsigned seed)
{
    for (int i = 0; i < SAMPLES + TAPS; i++)
        signal[i] = square_wave(i, 64) + 0.25f * square_wave(i, 5) + noise(&seed);
}

/* A triangle of unit area, symmetric about the middle. */
static void make_taps(float *h, int n)
{
    float area = 0.0f;
    for (int k = 0; k < n; k++) {
        int side = k < n - 1 - k ? k : n - 1 - k;
        h[k] = (float)(side + 1);
        area += h[k];
    }
    for (int k = 0; k < n; k++)
        h[k] = h[k] / area;
}

static float dot(const float *x, const float *h, int n)
{
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += x[k] * h[k];
    return sum;
}

static void filter(const float *x, const float *h, float *y, int n, int n_taps)
{
    for (int i = 0; i < n; i++)
        y[i] = dot(x + i, h, n_taps);
}

/* The same filter with half the products: equal taps share one. */
static void filter_folded(const float *x, const float *h, float *y, int n, int n_taps)
{
    for (int i = 0; i < n; i++)
        y[i] = 0.0f;
    for (int k = 0; k < n_taps / 2; k++)
        for (int i = 0; i < n; i++)
            y[i] += (x[i + k] + x[i + n_taps - 1 - k]) * h[k];
}

static void decimate(const float *x, float *y, int n, int step, float gain)
{
    for (int i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int k = 0; k < step; k++)
            sum += x[i * step + k];
        y[i] = sum * gain / (float)step;
    }
}

static long quantise(const float *x, int n)
{
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += (long)(x[i] * 512.0f) * (1 + (i & 3));
    return sum;
}

unsigned long work(void)
{
    long sum = 0;
    make_taps(taps, TAPS);
    for (int round = 0; round < 3; round++) {
        make_signal(3u + 7u * (unsigned)round);
        filter(signal, taps, smooth, SAMPLES, TAPS);
        filter_folded(signal, taps, folded, SAMPLES, TAPS);
        decimate(smooth, small, SAMPLES / 4, 4, 0.5f);
        sum = sum * 7 + quantise(smooth, SAMPLES) + quantise(folded, SAMPLES) + quantise(small, SAMPLES / 4);
    }
    return (unsigned long)sum & 0xffffffffUL;
}
