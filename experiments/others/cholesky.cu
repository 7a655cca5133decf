// Cholesky's factors of small matrices, with `shift` added to the diagonal: a thread has a row, `size` threads a matrix.
__global__ void cholesky(float *lower, const float *a, float shift, int n)
{
    int matrix = (blockIdx.x * threads + threadIdx.x) / size, i = threadIdx.x % size;
    size_t first = (size_t)min(matrix, n - 1) * size * size;
    float row[size];
    for (int j = 0; j < size; j++) row[j] = j > i ? 0.0f : a[first + i * size + j] + (i == j ? shift : 0.0f);
#if use_shared
    __shared__ float held[threads];
    float *column = held + threadIdx.x - i;
#endif
#pragma unroll
    for (int j = 0; j < size; j++) {
        float pivot = rsqrtf(__shfl_sync(0xffffffffu, row[j], j, size));
        row[j] *= pivot;
#if use_shared
        column[i] = row[j];
        __syncwarp();
#endif
#pragma unroll
        for (int k = j + 1; k < size; k++) {
#if use_shared
            float other = column[k];
#else
            float other = __shfl_sync(0xffffffffu, row[j], k, size);
#endif
            if (k <= i) row[k] -= row[j] * other;
        }
#if use_shared
        __syncwarp();
#endif
    }
    if (matrix < n)
        for (int j = 0; j < size; j++) lower[first + i * size + j] = row[j];
}
