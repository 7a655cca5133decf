// Moves particles: `apart` says whether the six numbers of a particle lie together or in six arrays.
__device__ int at(int particle, int which, int n) { return apart ? which * n + particle : particle * 6 + which; }

__global__ void move(float *state, float dt, int n)
{
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
    float speed[3];
    for (int k = 0; k < 3; k++) speed[k] = state[at(i, 3 + k, n)] * 0.99f;
    for (int k = 0; k < 3; k++) {
        state[at(i, 3 + k, n)] = speed[k];
        state[at(i, k, n)] += dt * speed[k];
    }
}
