// One thread follows a chain of indices through a buffer: what a single load takes.
__global__ void chase(int *out, const int *next, int steps)
{
    int at = 0;
#pragma unroll 8
    for (int k = 0; k < steps; k++) at = next[at];
    out[0] = at & 31;
}
