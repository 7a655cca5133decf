/* Times calls of an emitted library from C: BATCHES lines "gemm NS" and as many "launch NS", nanoseconds a call.
 *
 * NAME_H, OPEN, GEMM, WORKSPACE and LIBRARY are defined on the command line. Linked with --wrap=cuLaunchKernel: the
 * second half repeats the driver's function alone, with the arguments of the library's own last launch. */
#define _POSIX_C_SOURCE 199309L
#include NAME_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 200, BATCHES = 51 };

CUresult __real_cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               CUstream, void **, void **);
static int repeating;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

CUresult __wrap_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **arguments, void **extra)
{
    for (int batch = 0; repeating && batch < BATCHES; ++batch) {
        cuCtxSynchronize();
        const double start = now();
        for (int i = 0; i < CALLS; ++i)
            __real_cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
        printf("launch %.1f\n", (now() - start) / CALLS);
    }
    return __real_cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}

static void check(CUresult status, const char *what)
{
    if (status == CUDA_SUCCESS) return;
    fprintf(stderr, "%s returns %d\n", what, (int)status);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 5) return 2;
    const int64_t m = atoll(argv[2]), n = atoll(argv[3]), k = atoll(argv[4]);
    const int64_t lda = A_ROWS, ldb = B_ROWS;
    CUcontext context;
    CUdeviceptr at[4] = { 0 };
    size_t bytes = 0;
    LIBRARY *library = NULL;
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(OPEN(&library, argv[1]), "open");
    check(WORKSPACE(m, n, k, 1, lda, ldb, 0, m, &bytes), "workspace");
    const size_t sizes[4] = { sizeof(double) * m * k, sizeof(double) * k * n, sizeof(double) * m * n, bytes };
    for (int i = 0; i < 4; ++i)
        if (sizes[i] != 0) check(cuMemAlloc(&at[i], sizes[i]), "cuMemAlloc");
    for (int batch = -1; batch < BATCHES; ++batch) { /* the first one warms up */
        check(cuCtxSynchronize(), "cuCtxSynchronize");
        const double start = now();
        for (int i = 0; i < CALLS; ++i)
            check(GEMM(library, m, n, k, 1, at[0], lda, at[1], ldb, 0, at[2], m, at[3], bytes, NULL), "gemm");
        if (batch >= 0) printf("gemm %.1f\n", (now() - start) / CALLS);
    }
    repeating = 1;
    check(GEMM(library, m, n, k, 1, at[0], lda, at[1], ldb, 0, at[2], m, at[3], bytes, NULL), "gemm");
    check(cuCtxSynchronize(), "cuCtxSynchronize");
    return 0;
}
