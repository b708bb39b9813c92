/* Huffman coding of a text: count letters, build the tree, write codes bit by bit, read them back, and check both
   streams with a cyclic redundancy code. Input: a text from a small grammar of syllables. Bits, tables, short loops. */
#define TEXT 2500
#define LETTERS 64
#define NODES (2 * LETTERS)

struct node { int weight, left, right; };
struct stream { unsigned buffer; int filled, at; };

static unsigned char text[TEXT], back[TEXT], bits[TEXT];
static struct node nodes[NODES];
static unsigned code[LETTERS];
static int length[LETTERS];

static void make_text(unsigned seed)
{
    static const char syllables[8][4] = {"ba", "na", "el", "tor", "is", "qu", "ix", "e"};
    int at = 0;
    while (at < TEXT) {
        seed = seed * 22695477u + 1u;
        const char *s = syllables[(seed >> 20) & 7u];
        for (int k = 0; s[k] && at < TEXT; k++)
            text[at++] = (unsigned char)(s[k] - 'a');
        if ((seed >> 28) == 3u && at < TEXT)
            text[at++] = (unsigned char)(32 + ((seed >> 16) & 15u));
    }
}

static unsigned crc(const unsigned char *bytes, int n)
{
    unsigned r = 0xffffffffu;
    for (int i = 0; i < n; i++) {
        r ^= bytes[i];
        for (int b = 0; b < 8; b++)
            r = r & 1u ? (r >> 1) ^ 0xedb88320u : r >> 1;
    }
    return ~r;
}

static int lightest(const int *alive, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (alive[i] && (best < 0 || nodes[i].weight < nodes[best].weight))
            best = i;
    return best;
}

/* Returns the root. Letters come first in the table, then the nodes that join two others. */
static int build_tree(void)
{
    int alive[NODES], n = LETTERS, left = 0;
    for (int i = 0; i < NODES; i++) {
        nodes[i].weight = 0;
        nodes[i].left = nodes[i].right = -1;
        alive[i] = 0;
    }
    for (int i = 0; i < TEXT; i++)
        nodes[text[i]].weight++;
    for (int i = 0; i < LETTERS; i++)
        if (nodes[i].weight) {
            alive[i] = 1;
            left++;
        }
    for (; left > 1; left--) {
        int a = lightest(alive, n);
        alive[a] = 0;
        int b = lightest(alive, n);
        alive[b] = 0;
        nodes[n].weight = nodes[a].weight + nodes[b].weight;
        nodes[n].left = a;
        nodes[n].right = b;
        alive[n++] = 1;
    }
    return n - 1;
}

static void assign(int node, unsigned prefix, int depth)
{
    if (nodes[node].left < 0) {
        code[node] = prefix;
        length[node] = depth;
        return;
    }
    assign(nodes[node].left, prefix << 1, depth + 1);
    assign(nodes[node].right, (prefix << 1) | 1u, depth + 1);
}

static void write_bit(struct stream *s, unsigned bit)
{
    s->buffer = (s->buffer << 1) | bit;
    if (++s->filled == 8) {
        bits[s->at++] = (unsigned char)s->buffer;
        s->filled = 0;
    }
}

static int write_text(void)
{
    struct stream s = {0, 0, 0};
    for (int i = 0; i < TEXT; i++)
        for (int b = length[text[i]] - 1; b >= 0; b--)
            write_bit(&s, (code[text[i]] >> b) & 1u);
    while (s.filled)
        write_bit(&s, 0);
    return s.at;
}

static int read_bit(int at)
{
    return (bits[at >> 3] >> (7 - (at & 7))) & 1;
}

static void read_text(int root)
{
    int at = 0;
    for (int i = 0; i < TEXT; i++) {
        int node = root;
        while (nodes[node].left >= 0)
            node = read_bit(at++) ? nodes[node].right : nodes[node].left;
        back[i] = (unsigned char)node;
    }
}

unsigned long work(void)
{
    unsigned long sum = 0;
    for (unsigned round = 0; round < 4; round++) {
        make_text(round + 41u);
        int root = build_tree();
        assign(root, 0, 0);
        int bytes = write_text();
        read_text(root);
        sum = sum * 3 + crc(bits, bytes) + (unsigned long)bytes;
        sum ^= crc(text, TEXT) == crc(back, TEXT) ? 0 : 1;
    }
    return sum & 0xffffffffUL;
}
