/* Common to all programs: print the checksum of the work. Only what happens inside work() is counted. */
#include <stdio.h>

unsigned long work(void);

int main(void)
{
    printf("%lu\n", work());
    return 0;
}
