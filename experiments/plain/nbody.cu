__global__ void forces(float4 *force, const float4 *body, int n)
{
    __shared__ float4 tile[block_size];
    int i = blockIdx.x * block_size + threadIdx.x;
    float4 me = i < n ? body[i] : make_float4(0, 0, 0, 0);
    float fx = 0, fy = 0, fz = 0;
    for (int base = 0; base < n; base += block_size) {
        int j = base + threadIdx.x;
        tile[threadIdx.x] = j < n ? body[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll unroll
        for (int k = 0; k < block_size; k++) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float w = tile[k].w * inverse * inverse * inverse;
            fx += w * dx;
            fy += w * dy;
            fz += w * dz;
        }
        __syncthreads();
    }
    if (i < n) force[i] = make_float4(fx, fy, fz, 0);
}
