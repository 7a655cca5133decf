// C[b] = A[b] B[b] for many small S x S matrices; a block takes `batch` of them, a thread one row of one.
__global__ void batched(float *c, const float *a, const float *b, int count)
{
    __shared__ float right[batch][S * S];
    int which = threadIdx.y, row = threadIdx.x;
    int matrix = blockIdx.x * batch + which;
    if (matrix < count)
        for (int i = row; i < S * S; i += S) right[which][i] = b[matrix * S * S + i];
    __syncthreads();
    if (matrix >= count) return;
    float sum[S] = {};
#pragma unroll
    for (int k = 0; k < S; k++) {
        float left = a[(matrix * S + row) * S + k];
#pragma unroll
        for (int j = 0; j < S; j++) sum[j] += left * right[which][k * S + j];
    }
#pragma unroll
    for (int j = 0; j < S; j++) c[(matrix * S + row) * S + j] = sum[j];
}
