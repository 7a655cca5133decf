// Every thread owns a contiguous part of the row.
__global__ void softmax(float *y, const float *x, int rows, int columns, int ld) {
    __shared__ float held[128];
    const float *row = x + (long long)blockIdx.x * ld;
    float *out = y + (long long)blockIdx.x * columns;
    int t = threadIdx.x, part = (columns + 127) / 128, end = min(columns, (t + 1) * part);
    float largest = -INFINITY, sum = 0;
    for (int j = t * part; j < end; ++j) largest = fmaxf(largest, row[j]);
    held[t] = largest;
    __syncthreads();
    for (int apart = 64; apart; apart /= 2) {
        if (t < apart) held[t] = fmaxf(held[t], held[t + apart]);
        __syncthreads();
    }
    largest = held[0];
    __syncthreads();
    for (int j = t * part; j < end; ++j) sum += expf(row[j] - largest);
    held[t] = sum;
    __syncthreads();
    for (int apart = 64; apart; apart /= 2) {
        if (t < apart) held[t] += held[t + apart];
        __syncthreads();
    }
    sum = held[0];
    for (int j = t * part; j < end; ++j) out[j] = expf(row[j] - largest) / sum;
}
