/* Adaptive differential coding: 16-bit samples to 4-bit codes with a step size that follows the signal, packed two to
   a byte, and back. A scheme of our own in the family of ADPCM (geometric steps computed here, no standard's tables).
   Full of short data-dependent branches. Integers only. */
#define SAMPLES 6000
#define STEPS 64

struct coder { int predicted, index; };

static short sound[SAMPLES], decoded[SAMPLES];
static unsigned char packed[SAMPLES / 2];
static int steps[STEPS];
static const int move[8] = {-1, -1, -1, -1, 2, 4, 6, 8};

static void make_steps(void)
{
    int value = 8 * 16;
    for (int i = 0; i < STEPS; i++) {
        steps[i] = value / 16;
        value += value / 8;
    }
}

static void make_sound(unsigned seed)
{
    int slope = 300, value = 0;
    for (int i = 0; i < SAMPLES; i++) {
        seed = seed * 1664525u + 1013904223u;
        value += slope + (int)(seed >> 25) - 64;
        if (value > 12000)
            slope = -(int)((seed >> 20) & 511) - 40;
        if (value < -12000)
            slope = (int)((seed >> 20) & 511) + 40;
        sound[i] = (short)value;
    }
}

static int limit(int value, int low, int high)
{
    if (value < low)
        value = low;
    if (value > high)
        value = high;
    return value;
}

/* What a code stands for, given the step. */
static int difference(int code, int step)
{
    int d = step >> 3;
    if (code & 4)
        d += step;
    if (code & 2)
        d += step >> 1;
    if (code & 1)
        d += step >> 2;
    return code & 8 ? -d : d;
}

static void follow(struct coder *c, int code)
{
    c->predicted = limit(c->predicted + difference(code, steps[c->index]), -32768, 32767);
    c->index = limit(c->index + move[code & 7], 0, STEPS - 1);
}

static int encode(struct coder *c, int sample)
{
    int step = steps[c->index], rest = sample - c->predicted, code = 0;
    if (rest < 0) {
        code = 8;
        rest = -rest;
    }
    for (int bit = 4; bit; bit >>= 1) {
        if (rest >= step) {
            code |= bit;
            rest -= step;
        }
        step >>= 1;
    }
    follow(c, code);
    return code;
}

static void encode_all(int n)
{
    struct coder c = {0, 0};
    for (int i = 0; i < n; i += 2) {
        int low = encode(&c, sound[i]);
        int high = encode(&c, sound[i + 1]);
        packed[i / 2] = (unsigned char)(low | (high << 4));
    }
}

static void decode_all(int n)
{
    struct coder c = {0, 0};
    for (int i = 0; i < n; i++) {
        int byte = packed[i / 2];
        follow(&c, i & 1 ? byte >> 4 : byte & 15);
        decoded[i] = (short)c.predicted;
    }
}

static long compare(int n)
{
    long sum = 0;
    for (int i = 0; i < n; i++) {
        int e = sound[i] - decoded[i];
        sum += e < 0 ? -e : e;
    }
    return sum;
}

unsigned long work(void)
{
    unsigned long sum = 0;
    make_steps();
    for (int round = 0; round < 3; round++) {
        make_sound(11u * (unsigned)round + 1u);
        encode_all(SAMPLES);
        decode_all(SAMPLES);
        sum = sum * 17 + (unsigned long)compare(SAMPLES) + packed[SAMPLES / 3];
    }
    return sum;
}
