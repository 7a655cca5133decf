// A layer of 3 x 3 convolutions on images by channels; a thread makes one pixel of `outs` channels.
#define CHANNELS 16

__global__ void conv3x3(float *out, const float *in, const float *weights, int width, int height)
{
    const int x = blockIdx.x * block_x + threadIdx.x, y = blockIdx.y * block_y + threadIdx.y;
    const int groups = CHANNELS / outs, image = blockIdx.z / groups, first = blockIdx.z % groups * outs;
    if (x >= width || y >= height) return;
    float sums[outs] = {};
    for (int c = 0; c < CHANNELS; c++) {
        const float *from = in + ((size_t)(image * CHANNELS + c) * (height + 2) + y) * (width + 2) + x;
#pragma unroll
        for (int j = 0; j < 3; j++)
#pragma unroll
            for (int i = 0; i < 3; i++) {
                const float value = from[j * (width + 2) + i];
#pragma unroll
                for (int k = 0; k < outs; k++)
                    sums[k] += value * __ldg(weights + ((first + k) * CHANNELS + c) * 9 + j * 3 + i);
            }
    }
#pragma unroll
    for (int k = 0; k < outs; k++)
        out[((size_t)(image * CHANNELS + first + k) * height + y) * width + x] = sums[k];
}
