struct Particle { float4 position; float mass; };

__constant__ float weights[16];

__global__ void forces(const float4 *positions, float3 *accelerations, int count);

__global__ void forces(const float4 *positions, float3 *accelerations, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float3 sum = make_float3(0, 0, 0);
    for (int j = 0; j < count; ++j) {
        float dx = positions[j].x - positions[i].x, dy = positions[j].y - positions[i].y;
        float inverse = rsqrtf(dx * dx + dy * dy + SOFTENING);
        sum.x += dx * inverse * weights[0];
        sum.y += dy * inverse;
    }
    accelerations[i] = sum;
}

#ifdef OLD
__global__ void move(Particle *particles, float step) {
#else
__global__ void move(Particle *particles, double step, int count) {
#endif
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    particles[i].mass += step;
}
