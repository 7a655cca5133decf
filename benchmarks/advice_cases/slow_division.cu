// Coordinates of an element in each step: by division by a width, or by shifts.
__global__ void wave(int* out, const int* in, int n, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0, at = in[i] & 0xffffff;
#pragma unroll 1
    for (int k = 0; k < 64; ++k) {
#if PLANTED
        int row = at / width, column = at % width;  // FAULT
#else
        int row = at >> width, column = at & ((1 << width) - 1);
#endif
        sum += row ^ column;
        at += sum & 1023;
    }
    out[i] = sum;
}
