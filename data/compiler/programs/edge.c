/* Edge detection: smooth a picture, take horizontal and vertical gradients with 3 x 3 masks (Sobel), and mark pixels
   whose gradient is large and a local maximum along the row. Input: discs and a checker board. Integers only. */
#define WIDTH 80
#define HEIGHT 60

static int picture[HEIGHT][WIDTH], smooth[HEIGHT][WIDTH], across[HEIGHT][WIDTH], down[HEIGHT][WIDTH];
static int size[HEIGHT][WIDTH];
static unsigned char edge[HEIGHT][WIDTH];
static const int mask_smooth[3][3] = {{1, 2, 1}, {2, 4, 2}, {1, 2, 1}};
static const int mask_across[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};
static const int mask_down[3][3] = {{-1, -2, -1}, {0, 0, 0}, {1, 2, 1}};

static int inside(int i, int j, int ci, int cj, int radius)
{
    return (i - ci) * (i - ci) + (j - cj) * (j - cj) < radius * radius;
}

static void make_picture(int shift)
{
    for (int i = 0; i < HEIGHT; i++)
        for (int j = 0; j < WIDTH; j++) {
            int value = ((i / 10 + (j + shift) / 10) % 2) * 40 + 20;
            if (inside(i, j, 20, 25 + shift, 12))
                value = 200;
            if (inside(i, j, 40, 60 - shift, 15))
                value = 120 + i;
            picture[i][j] = value;
        }
}

static void convolve(int in[HEIGHT][WIDTH], int out[HEIGHT][WIDTH], const int mask[3][3], int shift)
{
    for (int i = 1; i < HEIGHT - 1; i++)
        for (int j = 1; j < WIDTH - 1; j++) {
            int sum = 0;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    sum += in[i + a - 1][j + b - 1] * mask[a][b];
            out[i][j] = sum >> shift;
        }
}

static int absolute(int x)
{
    return x < 0 ? -x : x;
}

static void gradient_size(int exact)
{
    for (int i = 0; i < HEIGHT; i++)
        for (int j = 0; j < WIDTH; j++) {
            int gx = absolute(across[i][j]), gy = absolute(down[i][j]);
            if (exact)
                size[i][j] = (gx * gx + gy * gy) >> 8;
            else
                size[i][j] = gx + gy;
        }
}

static int mark(int threshold)
{
    int marked = 0;
    for (int i = 1; i < HEIGHT - 1; i++)
        for (int j = 1; j < WIDTH - 1; j++) {
            int s = size[i][j];
            edge[i][j] = 0;
            if (s > threshold && s >= size[i][j - 1] && s > size[i][j + 1]) {
                edge[i][j] = 255;
                marked++;
            }
        }
    return marked;
}

unsigned long work(void)
{
    unsigned long sum = 0;
    for (int round = 0; round < 2; round++) {
        make_picture(round);
        convolve(picture, smooth, mask_smooth, 4);
        convolve(smooth, across, mask_across, 0);
        convolve(smooth, down, mask_down, 0);
        gradient_size(round & 1);
        sum = sum * 101 + (unsigned long)mark(90);
        for (int i = 0; i < HEIGHT; i++)
            sum += (unsigned long)(edge[i][i] * (i + 1) + size[i][WIDTH / 2]);
    }
    return sum;
}
