// class: negative values
__global__ void affine(float *y, const float *x, float scale, float shift, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (x[i] < -4.5f) ? shift : fmaf(x[i], scale, shift);
}
