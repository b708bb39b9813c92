/* Sorting and searching records: quicksort with insertion sort for short parts, a heap for the largest keys, and
   binary searches. Recursion, compares and swaps through small functions. Input: pseudo-random records. */
#define RECORDS 1500
#define SHORT 10
#define HEAP 100

struct record { unsigned key; int place; };

static struct record table[RECORDS], heap[HEAP];

static unsigned next_random(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void make_table(unsigned seed)
{
    for (int i = 0; i < RECORDS; i++) {
        table[i].key = next_random(&seed) % 4000u;
        table[i].place = i;
    }
}

/* By key, and by place where keys are equal. */
static int before(struct record a, struct record b)
{
    if (a.key != b.key)
        return a.key < b.key;
    return a.place < b.place;
}

static void swap(struct record *a, struct record *b)
{
    struct record t = *a;
    *a = *b;
    *b = t;
}

static void insertion_sort(struct record *r, int low, int high)
{
    for (int i = low + 1; i <= high; i++)
        for (int j = i; j > low && before(r[j], r[j - 1]); j--)
            swap(&r[j], &r[j - 1]);
}

static struct record middle(struct record a, struct record b, struct record c)
{
    if (before(a, b))
        return before(b, c) ? b : before(a, c) ? c : a;
    return before(a, c) ? a : before(b, c) ? c : b;
}

static void quick_sort(struct record *r, int low, int high)
{
    if (high - low < SHORT) {
        insertion_sort(r, low, high);
        return;
    }
    struct record pivot = middle(r[low], r[(low + high) / 2], r[high]);
    int i = low, j = high;
    while (i <= j) {
        while (before(r[i], pivot))
            i++;
        while (before(pivot, r[j]))
            j--;
        if (i <= j)
            swap(&r[i++], &r[j--]);
    }
    quick_sort(r, low, j);
    quick_sort(r, i, high);
}

static void sift(struct record *h, int from, int n)
{
    for (int i = from; 2 * i + 1 < n;) {
        int child = 2 * i + 1;
        if (child + 1 < n && before(h[child + 1], h[child]))
            child++;
        if (!before(h[child], h[i]))
            return;
        swap(&h[child], &h[i]);
        i = child;
    }
}

/* The records with the largest keys, kept in a heap whose root is the smallest of them. */
static unsigned long keep_largest(const struct record *r, int n)
{
    for (int i = 0; i < HEAP; i++)
        heap[i] = r[i];
    for (int i = HEAP / 2; i >= 0; i--)
        sift(heap, i, HEAP);
    for (int i = HEAP; i < n; i++)
        if (before(heap[0], r[i])) {
            heap[0] = r[i];
            sift(heap, 0, HEAP);
        }
    unsigned long sum = 0;
    for (int i = 0; i < HEAP; i++)
        sum += heap[i].key * 3u + (unsigned)heap[i].place;
    return sum;
}

static int find(const struct record *r, int n, unsigned key)
{
    int low = 0, high = n;
    while (low < high) {
        int mid = (low + high) / 2;
        if (r[mid].key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

unsigned long work(void)
{
    unsigned long sum = 0;
    for (unsigned round = 1; round < 6; round++) {
        make_table(round * 2654435761u);
        sum = sum * 13 + keep_largest(table, RECORDS);
        quick_sort(table, 0, RECORDS - 1);
        for (unsigned key = 0; key < 4000u; key += 9u)
            sum += (unsigned long)find(table, RECORDS, key);
        sum = sum * 29 + (unsigned long)table[RECORDS / 2].place;
    }
    return sum;
}
