/* Histogram of a grey image: count the levels, clip and equalise them, and measure contrast and spread.
   Input: a smooth ramp with pseudo-random grain. Integers only. */
#define WIDTH 96
#define HEIGHT 64
#define LEVELS 256

static unsigned char image[HEIGHT][WIDTH], equal[HEIGHT][WIDTH];
static int count[LEVELS], level[LEVELS];

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static int clamp(int value, int low, int high)
{
    if (value < low)
        return low;
    if (value > high)
        return high;
    return value;
}

static void make_image(unsigned seed)
{
    for (int i = 0; i < HEIGHT; i++)
        for (int j = 0; j < WIDTH; j++) {
            int grain = (int)(next_random(&seed) % 61) - 30;
            image[i][j] = (unsigned char)clamp(60 + i + (j * 3) / 4 + grain, 0, 255);
        }
}

static void count_levels(unsigned char pixels[HEIGHT][WIDTH], int *bins)
{
    for (int k = 0; k < LEVELS; k++)
        bins[k] = 0;
    for (int i = 0; i < HEIGHT; i++)
        for (int j = 0; j < WIDTH; j++)
            bins[pixels[i][j]]++;
}

/* Cut bins above the limit and hand the surplus to all bins alike. */
static int clip(int *bins, int limit)
{
    int surplus = 0;
    for (int k = 0; k < LEVELS; k++)
        if (bins[k] > limit) {
            surplus += bins[k] - limit;
            bins[k] = limit;
        }
    for (int k = 0; k < LEVELS; k++)
        bins[k] += surplus / LEVELS;
    return surplus;
}

static void make_levels(const int *bins, int *map)
{
    int total = 0, sum = 0;
    for (int k = 0; k < LEVELS; k++)
        total += bins[k];
    for (int k = 0; k < LEVELS; k++) {
        sum += bins[k];
        map[k] = clamp((sum * 255) / total, 0, 255);
    }
}

static void apply(const int *map, int keep_dark, int threshold)
{
    for (int i = 0; i < HEIGHT; i++)
        for (int j = 0; j < WIDTH; j++) {
            int old = image[i][j];
            int new = map[old];
            if (keep_dark && old < threshold)
                new = old;
            equal[i][j] = (unsigned char)new;
        }
}

static int contrast(unsigned char pixels[HEIGHT][WIDTH])
{
    int low = 255, high = 0, sum = 0;
    for (int i = 0; i < HEIGHT; i++)
        for (int j = 0; j < WIDTH; j++) {
            int p = pixels[i][j];
            low = p < low ? p : low;
            high = p > high ? p : high;
            sum += p;
        }
    int mean = sum / (WIDTH * HEIGHT), spread = 0;
    for (int i = 0; i < HEIGHT; i++)
        for (int j = 0; j < WIDTH; j++) {
            int d = pixels[i][j] - mean;
            spread += d * d;
        }
    return (high - low) * 1000 + spread / (WIDTH * HEIGHT);
}

unsigned long work(void)
{
    unsigned long sum = 0;
    for (int round = 0; round < 4; round++) {
        make_image(17u + (unsigned)round);
        count_levels(image, count);
        sum += (unsigned long)clip(count, 40 + round);
        make_levels(count, level);
        apply(level, round & 1, 50);
        count_levels(equal, count);
        sum = sum * 31 + (unsigned long)contrast(image) + (unsigned long)contrast(equal) + (unsigned long)count[128];
    }
    return sum;
}
