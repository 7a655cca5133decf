// Every channel convolved with its own 3 x 3 weights, by whole channels or with the channels of a pixel together.
__global__ void depthwise(float *out, const float *in, const float *weight, int height, int width)
{
    int last = channels_last ? channels : width, middle = channels_last ? width : height;
#pragma unroll
    for (int k = 0; k < items; k++) {
        int i = (blockIdx.x * items + k) * threads + threadIdx.x;
        if (i >= channels * height * width) return;
        int fast = i % last, slow = i / last / middle, between = i / last % middle;
        int c = channels_last ? fast : slow, y = channels_last ? slow : between, x = channels_last ? between : fast;
        float sum = 0.0f;
        for (int dy = 0; dy < 3; dy++)
            for (int dx = 0; dx < 3; dx++) {
                int row = y + dy, column = x + dx;
                int by_channel = (c * (height + 2) + row) * (width + 2) + column;
                int by_pixel = (row * (width + 2) + column) * channels + c;
                sum += weight[(dy * 3 + dx) * channels + c] * in[channels_last ? by_pixel : by_channel];
            }
        out[i] = sum;
    }
}
