/* Time a call of the selection of an emitted library: nanoseconds, of sizes in binary files.

   select_speed COLD REPEATED, each a file of int64_t m, n, k for each size; NAME is defined when it is compiled. */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define JOINED(name) name##_select
#define SELECT(name) JOINED(name)
int SELECT(NAME)(int64_t m, int64_t n, int64_t k);

enum { REPETITIONS = 15, CALLS = 1 << 20 };

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int64_t *sizes_of(const char *file, size_t *count)
{
    FILE *stream = fopen(file, "rb");
    int64_t *sizes = malloc(3 * sizeof *sizes * CALLS);
    if (stream == NULL || sizes == NULL) exit(1);
    *count = fread(sizes, 3 * sizeof *sizes, CALLS, stream);
    fclose(stream);
    return sizes;
}

int main(int argc, char **argv)
{
    int64_t picked = 0;
    for (int file = 1; file < argc; ++file) {
        size_t count;
        const int64_t *sizes = sizes_of(argv[file], &count);
        double ns[REPETITIONS];
        for (int i = 0; i < REPETITIONS; ++i) {
            const double start = now();
            for (size_t call = 0, at = 0; call < CALLS; ++call, at = at + 1 < count ? at + 1 : 0)
                picked += SELECT(NAME)(sizes[3 * at], sizes[3 * at + 1], sizes[3 * at + 2]);
            ns[i] = (now() - start) / CALLS;
        }
        qsort(ns, REPETITIONS, sizeof *ns, compare);
        printf("%.2f ", ns[REPETITIONS / 2]);
    }
    return picked == 1; /* so that no call can be left out */
}
