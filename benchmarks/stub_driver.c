/* A libcuda.so.1 that does nothing: `call_overhead.py --without-gpu` times what surrounds the driver's functions.
 * One GPU, one context, all memory on it. */
#include <stddef.h>
#include <stdint.h>

#define CONTEXT 0x1000
typedef uint64_t word;

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuGetErrorString(int status, const char **text) { (void)status; *text = "an error"; return 0; }
int cuCtxGetId(void *context, unsigned long long *number) { (void)context; *number = 1; return 0; }
int cuCtxGetCurrent(word *context) { *context = CONTEXT; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuCtxPushCurrent_v2(void *context) { (void)context; return 0; }
int cuCtxPopCurrent_v2(word *context) { *context = CONTEXT; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{ (void)device; *flags = 0; *active = 1; return 0; }
int cuDevicePrimaryCtxRetain(word *context, int device) { (void)device; *context = CONTEXT; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuPointerGetAttribute(void *data, int attribute, word pointer)
{ (void)attribute; (void)pointer; *(word *)data = CONTEXT; return 0; }
int cuPointerGetAttributes(unsigned count, const int *attributes, void **data, word pointer)
{
    for (unsigned i = 0; i < count; ++i) {
        switch (attributes[i]) {
        case 1: *(word *)data[i] = CONTEXT; break;
        case 2: *(unsigned *)data[i] = 2; break;
        case 3: *(word *)data[i] = pointer; break;
        default: *(unsigned *)data[i] = 0; break;
        }
    }
    return 0;
}
int cuModuleLoad(word *module, const char *path) { (void)path; *module = 1; return 0; }
int cuModuleLoadData(word *module, const void *image) { (void)image; *module = 1; return 0; }
int cuModuleUnload(void *module) { (void)module; return 0; }
int cuModuleGetFunction(word *function, void *module, const char *name)
{ (void)module; (void)name; *function = 1; return 0; }
int cuFuncSetAttribute(void *function, int attribute, int value)
{ (void)function; (void)attribute; (void)value; return 0; }
int cuMemAlloc_v2(word *pointer, size_t bytes) { (void)bytes; *pointer = (word)1 << 30; return 0; }
int cuMemsetD8Async(word pointer, unsigned char value, size_t bytes, void *stream)
{ (void)pointer; (void)value; (void)bytes; (void)stream; return 0; }
int cuStreamGetId(void *stream, unsigned long long *number) { *number = (word)(uintptr_t)stream; return 0; }
int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return 0; }
int cuEventCreate(word *event, unsigned flags) { (void)flags; *event = 1; return 0; }
int cuEventRecord(void *event, void *stream) { (void)event; (void)stream; return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{ (void)stream; (void)event; (void)flags; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device)
{ (void)attribute; (void)device; *value = 132; return 0; }
int cuFuncGetAttribute(int *value, int attribute, void *function)
{ (void)attribute; (void)function; *value = 0; return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared)
{ (void)function; (void)threads; (void)shared; *blocks = 1; return 0; }
int cuOccupancyMaxActiveClusters(int *clusters, void *function, const void *configuration)
{ (void)function; (void)configuration; *clusters = 1; return 0; }
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const word *extents, const word *strides,
                           const unsigned *box, const unsigned *steps, int interleave, int swizzle, int promotion, int fill)
{
    (void)map; (void)type; (void)rank; (void)address; (void)extents; (void)strides;
    (void)box; (void)steps; (void)interleave; (void)swizzle; (void)promotion; (void)fill;
    return 0;
}
int cuLaunchKernelEx(const void *configuration, void *function, void **arguments, void **extra)
{ (void)configuration; (void)function; (void)arguments; (void)extra; return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra)
{
    (void)function; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz;
    (void)shared; (void)stream; (void)arguments; (void)extra;
    return 0;
}
