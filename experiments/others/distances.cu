// Squared distances between all pairs of points of `width` coordinates, which lie coordinate by coordinate.
__global__ void distances(float *d, const float *x, int n)
{
    int column = blockIdx.x * block_x + threadIdx.x, row = (blockIdx.y * block_y + threadIdx.y) * rows;
    float sum[rows] = {};
    for (int k = 0; k < width; k++) {
        float there = x[k * n + column];
        for (int r = 0; r < rows; r++) {
            float apart = x[k * n + row + r] - there;
            sum[r] += apart * apart;
        }
    }
    for (int r = 0; r < rows; r++) d[(size_t)(row + r) * n + column] = sum[r];
}
