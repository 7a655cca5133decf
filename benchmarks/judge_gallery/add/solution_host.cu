#include <cstdio>
#include <vector>
__global__ void add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main() {
    std::vector<float> x(100);
    float *c, *a, *b;
    cudaMalloc(&a, 400); cudaMalloc(&b, 400); cudaMalloc(&c, 400);
    add<<<1, 128>>>(c, a, b, 100);
    printf("%f\n", x[0]);
}
