// The functions of the fake driver that the programs of these tests call, with NVIDIA's names and numbers.
// The device of the driver is this process.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct kernel *CUfunction;
typedef struct kernel *CUmodule;
typedef struct graph *CUgraph;
typedef struct node *CUgraphNode;
typedef struct exec *CUgraphExec;

typedef struct {
  unsigned id, padding, value[16];
} CUlaunchAttribute;

typedef struct {
  unsigned grid[3], block[3], shared;
  CUstream stream;
  const CUlaunchAttribute *attributes;
  unsigned attribute_count;
} CUlaunchConfig;

typedef struct {
  size_t src_x, src_y;
  unsigned src_type;
  const void *src_host;
  CUdeviceptr src_device;
  void *src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  unsigned dst_type;
  void *dst_host;
  CUdeviceptr dst_device;
  void *dst_array;
  size_t dst_pitch;
  size_t width, height;
} CUDA_MEMCPY2D;

typedef struct {
  int kind, number, may;
} CUmemAccessDesc;

typedef struct {
  CUfunction func;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
  CUfunction kern;
  void *context;
} CUDA_KERNEL_NODE_PARAMS;

CUresult cuInit(unsigned flags);
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr at);
CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *at, size_t bytes, void *pool, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags);
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *descriptions, size_t count);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name);
CUresult cuTexObjectCreate(uint64_t *texture, const void *resource, const void *description, const void *view);
CUresult cuTexObjectDestroy(uint64_t texture);
CUresult cuSurfObjectCreate(uint64_t *surface, const void *resource);
CUresult cuSurfObjectDestroy(uint64_t surface);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamBeginCapture(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraph child);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *result);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuCtxSynchronize(void);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream stream);
CUresult cuLaunchKernel(CUfunction kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra);
CUresult cuFuncSetAttribute(CUfunction kernel, int attribute, int value);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction kernel, void **parameters, void **extra);

// The functions from here on are not NVIDIA's.
enum { MOST_PARAMETERS = 20 };
// Defines a kernel: its parameters, a constant in its code, and the function that a launch runs.
CUfunction fake_define(const char *name, int count, const size_t *offsets, const size_t *sizes, uint64_t code, void (*run)(void **parameters));
// Data that the launches of this thread carry from now on. It is not a parameter. A running kernel can read it.
void fake_next_data(void *data);
void *fake_running_data(void);
// Returns a kernel by its name. Its code is loaded on first use.
CUfunction fake_kernel(const char *name);
// Destroys the context with everything in it, as cuDevicePrimaryCtxReset does. The next context and its
// streams get the same handles.
void fake_reset(void);
// The address of a variable of a module.
CUdeviceptr fake_variable(CUmodule module, const char *name);
// Whether the handle is a library kernel.
int fake_is_kernel(CUfunction kernel);
