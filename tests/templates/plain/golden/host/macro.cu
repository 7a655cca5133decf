#include <cuda_fp16.h>
#include <string>
#include <map>
#include <cuda.h>
#include <omp.h>

#define DEFINE_SCALE(T, NAME)                                        \
  __global__ void NAME(T* x, T factor, int n) {                      \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                   \
    if (i < n) x[i] = x[i] * factor;                                 \
  }
#define DEFINE_LAUNCH(T, NAME)                                       \
  void launch_##NAME(T* x, T factor, int n) {                        \
    NAME<<<(n + 127) / 128, 128>>>(x, factor, n);                    \
  }

DEFINE_SCALE(float, scale_float)
DEFINE_SCALE(__half, scale_half)
DEFINE_LAUNCH(float, scale_float)
DEFINE_LAUNCH(__half, scale_half)

enum class Mode { fast, exact };
typedef std::map<std::string, int> Options;
Options options;
struct Settings {
  Options chosen;
  Mode mode;
};

static const char* modes[] = {"fast", "exact"};

Mode parse(const std::string& text) { return text == modes[0] ? Mode::fast : Mode::exact; }

std::ostream& operator<<(std::ostream& out, const Settings& s) { return out << s.chosen.size(); }

bool operator==(const Settings& a, const Settings& b) { return a.mode == b.mode; }

int main(int, char**) {
  float* x = nullptr;
#pragma omp parallel for
  for (int i = 0; i < 4; i++) launch_scale_float(x, 2.0f, i);
  return parse("fast") == Mode::fast ? 0 : 1;
}
