#include <algorithm>
#include <memory>
#include <type_traits>
#include <stdexcept>

class Buffer {
 public:
  explicit Buffer(size_t n) : n_(n), data_{nullptr} {
    if (cudaMalloc(&data_, n * sizeof(float)) != cudaSuccess) throw std::runtime_error("no memory");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() { cudaFree(data_); }
  float* get() const noexcept { return data_; }
  float& operator[](size_t i) { return data_[i]; }
  operator bool() const { return data_ != nullptr; }

 private:
  size_t n_;
  float* data_;
};

struct Shape {
  int rows, columns;
  Shape() = default;
  Shape(int r, int c) : rows(r), columns(c) {}
  __device__ int at(int r, int c) const { return r * columns + c; }
  int size() const { return rows * columns; }
  static constexpr int limit = 1 << 20;
  friend bool operator==(Shape a, Shape b) { return a.rows == b.rows; }
};

__device__ float limited(float x, float low, float high);

float limited(float x, float low, float high) { return std::max(low, std::min(x, high)); }

template <typename T, typename = std::enable_if_t<std::is_floating_point<T>::value>>
__global__ void clip(T* out, const T* in, Shape shape) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c < shape.columns) out[shape.at(r, c)] = limited(in[shape.at(r, c)], T(-1), T(1));
}

template __global__ void clip<float>(float*, const float*, Shape);

template <typename T>
void run(Shape shape) {
  auto out = std::make_unique<Buffer>(shape.size());
  Buffer in(shape.size());
  clip<T><<<dim3((shape.columns + 255) / 256, shape.rows), 256>>>(out->get(), in.get(), shape);
}

template void run<float>(Shape);

extern "C" {
int entry(int rows, int columns) {
  try {
    run<float>({rows, columns});
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}
}
