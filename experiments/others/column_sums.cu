// Sums of columns: a thread adds `rows` rows of its column and adds the result to the whole.
__global__ void column_sums(float *sums, const float *a, int m, int n)
{
    int column = blockIdx.x * threads + threadIdx.x, first = blockIdx.y * rows;
    if (column >= n) return;
    float sum = 0.0f;
    for (int i = first; i < first + rows && i < m; i++) sum += a[(size_t)i * n + column];
    atomicAdd(&sums[column], sum);
}
