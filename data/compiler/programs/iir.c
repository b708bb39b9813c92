/* Infinite impulse response filter: a cascade of second-order sections with limits, followed by an envelope detector.
   Input: a saw-tooth with clicks, double precision. The state of a section is a small structure passed by value. */
#define SAMPLES 3000
#define SECTIONS 5

struct section { double b0, b1, b2, a1, a2; };
struct state { double s1, s2; };
struct step { double out; struct state state; };

static const struct section cascade[SECTIONS] = {
    {0.25, 0.50, 0.25, -0.30, 0.10},
    {0.30, 0.40, 0.30, -0.20, 0.15},
    {0.50, 0.00, -0.50, 0.10, -0.05},
    {0.40, 0.20, 0.40, -0.15, 0.20},
    {0.60, -0.20, 0.30, -0.05, 0.12},
};
static double input[SAMPLES], output[SAMPLES], envelope[SAMPLES];

static struct step advance(struct section c, struct state s, double x)
{
    struct step r;
    r.out = c.b0 * x + s.s1;
    r.state.s1 = c.b1 * x - c.a1 * r.out + s.s2;
    r.state.s2 = c.b2 * x - c.a2 * r.out;
    return r;
}

static double limit(double x, double bound)
{
    if (x > bound)
        return bound;
    if (x < -bound)
        return -bound;
    return x;
}

static void make_input(int clicks)
{
    for (int i = 0; i < SAMPLES; i++) {
        input[i] = (double)(i % 40) / 20.0 - 1.0;
        if (clicks && i % 97 == 0)
            input[i] += 4.0;
    }
}

static void run_cascade(const double *x, double *y, int n, int guarded)
{
    struct state states[SECTIONS];
    for (int k = 0; k < SECTIONS; k++)
        states[k].s1 = states[k].s2 = 0.0;
    for (int i = 0; i < n; i++) {
        double value = x[i];
        for (int k = 0; k < SECTIONS; k++) {
            struct step r = advance(cascade[k], states[k], value);
            states[k] = r.state;
            value = r.out;
            if (guarded)
                value = limit(value, 2.0);
        }
        y[i] = value;
    }
}

static void follow(const double *x, double *e, int n, double rise, double fall)
{
    double level = 0.0;
    for (int i = 0; i < n; i++) {
        double size = x[i] < 0.0 ? -x[i] : x[i];
        double rate = size > level ? 1.0 / rise : 1.0 / fall;
        level += (size - level) * rate;
        e[i] = level;
    }
}

static unsigned long quantise(const double *x, int n)
{
    unsigned long sum = 0;
    for (int i = 0; i < n; i++)
        sum = sum * 3 + (unsigned long)(long)(x[i] * 4096.0 + 0.5);
    return sum;
}

unsigned long work(void)
{
    unsigned long sum = 0;
    for (int round = 0; round < 2; round++) {
        make_input(round);
        run_cascade(input, output, SAMPLES, round);
        follow(output, envelope, SAMPLES, 4.0, 64.0);
        sum += quantise(output, SAMPLES) ^ quantise(envelope, SAMPLES);
    }
    return sum & 0xffffffffUL;
}
