/* The C that a library comes with: one product on the GPU, checked on the CPU.
 *
 * `lab tune` writes a folder with a library's .h, .c and cubins; that of a library that comes with lab is unpacked by
 *
 *     mkdir nn && tar xf libraries/h200_sgemm/h200_sgemm_nn.tar.xz -C nn
 *     cc -std=c11 -O2 -DNAME=h200_sgemm_nn -DHEADER='"h200_sgemm_nn.h"' -I nn \
 *        examples/gemm.c nn/h200_sgemm_nn.c -lcuda -lm -o gemm
 *     ./gemm nn
 *
 * The layout must be nn. cuda.h comes with a CUDA toolkit, or with the wheel nvidia-cuda-runtime. */
#include HEADER

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define GEMM(what) JOIN(NAME, what)

static void check(CUresult status, const char *what)
{
    const char *text = "an unknown error";
    if (status == CUDA_SUCCESS) return;
    cuGetErrorString(status, &text);
    fprintf(stderr, "%s: %s\n", what, text);
    exit(1);
}

static float *filled(size_t count, unsigned seed)
{
    float *values = malloc(count * sizeof *values);
    if (values == NULL) exit(1);
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
    return values;
}

static CUdeviceptr on_gpu(const float *values, size_t count)
{
    CUdeviceptr at = 0;
    check(cuMemAlloc(&at, count * sizeof *values), "cuMemAlloc");
    check(cuMemcpyHtoD(at, values, count * sizeof *values), "cuMemcpyHtoD");
    return at;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    enum { m = 300, n = 170, k = 77 };
    const float alpha = 1.5f, beta = -0.5f;
    CUcontext context;
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");

    GEMM(_library) *library = NULL;
    check(GEMM(_open)(&library, argv[1]), "open");
    printf("kernel: %s\n", GEMM(_kernel_name)(GEMM(_select)(m, n, k)));

    float *a = filled(m * k, 1), *b = filled(k * n, 2), *c = filled(m * n, 3), *got = filled(m * n, 4);
    const CUdeviceptr A = on_gpu(a, m * k), B = on_gpu(b, k * n), C = on_gpu(c, m * n);
    size_t bytes = 0;
    CUdeviceptr workspace = 0;
    check(GEMM(_workspace)(m, n, k, alpha, m, k, beta, m, &bytes), "workspace"); /* leading dimensions: no padding */
    if (bytes != 0) check(cuMemAlloc(&workspace, bytes), "cuMemAlloc");

    CUstream stream;
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    check(GEMM(_gemm)(library, m, n, k, alpha, A, m, B, k, beta, C, m, workspace, bytes, stream), "gemm");
    check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    check(cuMemcpyDtoH(got, C, m * n * sizeof *got), "cuMemcpyDtoH");

    double worst = 0;
    for (int column = 0; column < n; ++column) {
        for (int row = 0; row < m; ++row) {
            double sum = 0; /* column-major: element (row, column) is at row + column * leading dimension */
            for (int i = 0; i < k; ++i) sum += (double)a[row + i * m] * b[i + column * k];
            worst = fmax(worst, fabs(alpha * sum + beta * c[row + column * m] - got[row + column * m]));
        }
    }
    printf("largest error: %.1e\n", worst);
    GEMM(_close)(library);
    check(cuDevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
    free(a), free(b), free(c), free(got);
    return worst < 1e-3 ? 0 : 1;
}
