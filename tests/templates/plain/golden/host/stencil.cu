#include <stdlib.h>
#include <stdio.h>
#include <sys/time.h>
#include <math.h>

#define IDX(i, j) ((i) * width + (j))
#define HD __host__ __device__
#ifdef DOUBLE
typedef double real;
#else
typedef float real;
#endif

__constant__ real weights[5] = {0.5, 0.125, 0.125, 0.125, 0.125};
static real* h_grid;
extern int verbose;

double wall_time(void)
{
    struct timeval t;
    gettimeofday(&t, NULL);
    return t.tv_sec + 1e-6 * t.tv_usec;
}

HD inline real combine(real c, real n, real s, real w, real e)
{
    return weights[0] * c + weights[1] * n + weights[2] * s + weights[3] * w + weights[4] * e;
}

static HD int clamp_to(int x, int high) { return x < 0 ? 0 : (x > high ? high : x); }

__global__
__launch_bounds__(256)
void step(real* __restrict__ out, const real* __restrict__ in, int width, int height)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    out[IDX(i, j)] = combine(in[IDX(i, j)], in[IDX(clamp_to(i - 1, height - 1), j)],
                             in[IDX(clamp_to(i + 1, height - 1), j)], in[IDX(i, clamp_to(j - 1, width - 1))],
                             in[IDX(i, clamp_to(j + 1, width - 1))]);
}

static void usage(const char* name)
{
    fprintf(stderr, "usage: %s {width} \"{height}\"\n", name); /* } */
    exit(1); // }
}

#if defined(WITH_MAIN) || !defined(LIBRARY)
int main(int argc, char* argv[])
#else
int run(int argc, char* argv[])
#endif
{
    if (argc < 3) usage(argv[0]);
    int width = atoi(argv[1]), height = atoi(argv[2]);
    double t = wall_time();
#ifdef VERBOSE
    if (verbose) {
        printf("verbose\n");
    }
#endif
    h_grid = (real*)malloc(sizeof(real) * width * height);
    step<<<dim3(width / 16, height / 16), dim3(16, 16)>>>(h_grid, h_grid, width, height);
    printf("%g s\n", wall_time() - t);
    return 0;
}
