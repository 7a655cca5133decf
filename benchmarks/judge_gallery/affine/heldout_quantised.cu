// class: precision
__global__ void affine(float *y, const float *x, float scale, float shift, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int q = __float2int_rn((scale * x[i] + shift) * 128.0f);
    y[i] = q * 0.0078125f;
}
