// The driver functions that replays of single launches call: devices, memory at chosen addresses, and
// failures that environment variables choose.
#pragma once
#include "fake.h"
#include "streams.h"

#include <sys/mman.h>

enum { OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, NO_BINARY = 209, ILLEGAL_ADDRESS = 700 };
enum { PAGE = 4096, IMAGE_BYTES = 2048, ARCHITECTURE = 90 };

// The error of the context after a kernel has failed. It stays.
static int context_status;

CUresult cuGetErrorName(CUresult status, const char **name) {
  *name = status == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL;
  return *name ? 0 : 1;
}
CUresult cuGetErrorString(CUresult status, const char **text) {
  *text = "as the fake driver says";
  return status ? 0 : 1;
}
CUresult cuDeviceGetCount(int *count) {
  *count = getenv("FAKE_NO_DEVICE") ? 0 : 1;
  return 0;
}
CUresult cuDeviceGet(int *device, int at) {
  *device = at;
  return 0;
}
static int architecture(void) {
  const char *other = getenv("FAKE_ARCHITECTURE");
  return other ? atoi(other) : ARCHITECTURE;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? architecture() / 10 : attribute == 76 ? architecture() % 10 : attribute == 102;
  return device;
}

// Memory at chosen addresses. Reserved memory can be accessed once access was granted.
CUresult cuMemGetAllocationGranularity(size_t *bytes, const void *kind, unsigned which) {
  *bytes = PAGE;
  return kind && which == 0 ? 0 : 1;
}
CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags) {
  if (alignment || flags || bytes % PAGE || wish % PAGE) return 1;
  if (getenv("FAKE_TAKEN")) wish = 0;
  void *place = mmap((void *)wish, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | (wish ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (place == MAP_FAILED) place = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *at = (CUdeviceptr)place;
  return place == MAP_FAILED;
}
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) { return munmap((void *)at, bytes) != 0; }
CUresult cuMemCreate(uint64_t *handle, size_t bytes, const void *kind, unsigned long long flags) {
  *handle = 1;
  if (getenv("FAKE_FULL")) return OUT_OF_MEMORY;
  return bytes % PAGE || !kind || flags;
}
CUresult cuMemRelease(uint64_t handle) { return handle != 1; }
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) { return mprotect((void *)at, bytes, PROT_NONE) != 0; }
// Memory of the program that was never reserved does not change.
static void may_touch(CUdeviceptr at, size_t bytes) {
  if (at % PAGE == 0 && bytes % PAGE == 0) mprotect((void *)at, bytes, PROT_READ | PROT_WRITE);
}
CUresult cuMemsetD8_v2(CUdeviceptr at, unsigned char value, size_t bytes) {
  memset((void *)at, value, bytes);
  return 0;
}

// Kernels fail as FAKE_KERNEL says: NAME=spin, crash, stray (the context is lost) or wrong (changes the first
// word of the first pointer).
static const char *goes_wrong(const char *kernel) {
  const char *how = getenv("FAKE_KERNEL");
  size_t bytes = strlen(kernel);
  return how && !strncmp(how, kernel, bytes) && how[bytes] == '=' ? how + bytes + 1 : "";
}
static int go_wrong(const char *how) {
  if (!strcmp(how, "spin"))
    for (;;) pause();
  if (!strcmp(how, "crash")) *(volatile int *)8 = 1;
  if (!strcmp(how, "stray")) context_status = ILLEGAL_ADDRESS;
  return !strcmp(how, "wrong");
}
