#include <iostream>
#include <vector>
#include <cstdlib>
#include <chrono>
#include <cassert>
using namespace std;
using Clock = std::chrono::high_resolution_clock;

#define TILE 16
#define CHECK(call)                                                        \
  do {                                                                     \
    cudaError_t status = (call);                                           \
    if (status != cudaSuccess) {                                           \
      std::cerr << cudaGetErrorString(status) << " " << __LINE__ << endl;  \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

const string TITLE = "tiled product";
int repetitions = 10;
static vector<float> results;

void fill(vector<float>& v, float scale = 1.0f);
float seconds(Clock::time_point a, Clock::time_point b) { return chrono::duration<float>(b - a).count(); }

__global__ void matMul(float* c, const float* a, const float* b, int n) {
  __shared__ float as[TILE][TILE];
  __shared__ float bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n / TILE; t++) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t * TILE + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t * TILE + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < TILE; k++) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

void matMulHost(const vector<float>& a, const vector<float>& b, vector<float>& c, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      float s = 0;
      for (int k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j];
      c[i * n + j] = s;
    }
}

void fill(vector<float>& v, float scale) {
  for (auto& x : v) x = scale * (rand() % 100);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 512;
  vector<float> a(n * n), b(n * n), c(n * n);
  fill(a); fill(b, 2.0f);
  float *da, *db, *dc;
  CHECK(cudaMalloc(&da, n * n * sizeof(float)));
  CHECK(cudaMalloc(&db, n * n * sizeof(float)));
  CHECK(cudaMalloc(&dc, n * n * sizeof(float)));
  dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
  auto start = Clock::now();
  matMul<<<grid, block>>>(dc, da, db, n);
  CHECK(cudaDeviceSynchronize());
  cout << TITLE << ": " << seconds(start, Clock::now()) << " s" << endl;
  assert(c.size() == a.size());
}
