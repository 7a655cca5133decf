// One member of seven is read, of structures or of an array of its own.
struct Particle { float x, y, z, vx, vy, vz, mass; };
__global__ void masses(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
#if PLANTED
    out[i] = 2.f * reinterpret_cast<const Particle*>(in)[i].mass;  // FAULT
#else
    out[i] = 2.f * in[6 * n + i];
#endif
}
