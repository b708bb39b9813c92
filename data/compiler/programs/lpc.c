/* Linear prediction: windowed autocorrelation of a frame, Levinson's recursion, and the energy of the residual.
   Input: the response of a fixed resonance to pulses, 16-bit integers; autocorrelation in integers, the rest in double. */
#define FRAME 240
#define ORDER 10
#define FRAMES 12

static short speech[FRAME * FRAMES];
static int window[FRAME];

static void make_window(void)
{
    for (int i = 0; i < FRAME; i++) {
        int side = 2 * i < FRAME ? 2 * i : 2 * (FRAME - 1 - i);
        window[i] = 16 + (side * 112) / FRAME;
    }
}

static void make_speech(int pitch)
{
    int past1 = 0, past2 = 0;
    for (int i = 0; i < FRAME * FRAMES; i++) {
        int pulse = i % (pitch + i / 400) == 0 ? 6000 : 0;
        int value = pulse + (past1 * 7) / 5 - (past2 * 4) / 5;
        past2 = past1;
        past1 = value;
        speech[i] = (short)(value / 8);
    }
}

static void apply_window(const short *x, int *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = (x[i] * window[i]) >> 7;
}

static void correlate(const int *x, int *r, int n, int order)
{
    for (int lag = 0; lag <= order; lag++) {
        int sum = 0;
        for (int i = lag; i < n; i++)
            sum += (x[i] * x[i - lag]) >> 6;
        r[lag] = sum;
    }
}

/* Solve the normal equations; a[0] = 1. Returns the energy of the prediction error. */
static double levinson(const int *r, double *a, int order)
{
    double error = (double)r[0] + 1.0;
    a[0] = 1.0;
    for (int k = 1; k <= order; k++)
        a[k] = 0.0;
    for (int k = 1; k <= order; k++) {
        double acc = (double)r[k];
        for (int j = 1; j < k; j++)
            acc += a[j] * (double)r[k - j];
        double reflection = -acc / error;
        a[k] = reflection;
        for (int j = 1; j <= k / 2; j++) {
            double low = a[j], high = a[k - j];
            a[j] = low + reflection * high;
            a[k - j] = high + reflection * low;
        }
        error *= 1.0 - reflection * reflection;
    }
    return error;
}

static void to_fixed(const double *a, int *c, int order)
{
    for (int k = 0; k <= order; k++)
        c[k] = (int)(a[k] * 4096.0);
}

static long residual(const short *x, const int *c, int n, int order)
{
    long energy = 0;
    for (int i = order; i < n; i++) {
        int e = 0;
        for (int k = 0; k <= order; k++)
            e += c[k] * x[i - k];
        e >>= 12;
        energy += (long)e * e;
    }
    return energy;
}

unsigned long work(void)
{
    int windowed[FRAME], r[ORDER + 1], c[ORDER + 1];
    double a[ORDER + 1];
    unsigned long sum = 0;
    make_window();
    for (int pitch = 50; pitch < 90; pitch += 20) {
        make_speech(pitch);
        for (int f = 0; f < FRAMES; f++) {
            const short *x = speech + f * FRAME;
            apply_window(x, windowed, FRAME);
            correlate(windowed, r, FRAME, ORDER);
            double error = levinson(r, a, ORDER);
            to_fixed(a, c, ORDER);
            sum = sum * 3 + (unsigned long)residual(x, c, FRAME, ORDER) + (unsigned long)(error / 16.0);
        }
    }
    return sum & 0xffffffffUL;
}
