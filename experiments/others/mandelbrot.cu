// Steps until a point of the plane escapes.
__global__ void mandelbrot(int *steps, int width, int height)
{
    int x = blockIdx.x * block_x + threadIdx.x, y = blockIdx.y * block_y + threadIdx.y;
    if (x >= width || y >= height) return;
    float re = -2.0f + 2.5f * x / width, im = -1.25f + 2.5f * y / height, a = 0.0f, b = 0.0f;
    int n = 0;
    while (n < 256 && a * a + b * b < 4.0f) {
        float next = a * a - b * b + re;
        b = 2.0f * a * b + im;
        a = next;
        n++;
    }
    steps[y * width + x] = n;
}
