// A fake CUDA driver with a fake CUPTI: device memory is memory of this process, and each stream is a thread
// that executes one command after the other.
#define _GNU_SOURCE
#include "fake.h"
#include "graphs.h"
#include "streams.h"
#include "tensortap_kernels.h"
#include "again.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 1, NOT_FOUND = 500, NOT_READY = 600, DRIVER = 1, RESOURCES = 3, CONTEXT_CREATED = 1, CONTEXT_GOES = 2, MODULE_LOADED = 6 };

// ---------------------------------------------------------------- CUPTI

typedef void (*callback)(void *, unsigned domain, unsigned id, const void *data);
struct call_data {
  unsigned site;
  const char *function_name;
  const void *params;
  void *status;
  const char *symbol;
  void *context;
  uint32_t context_id;
  uint64_t *correlation_data;
  uint32_t correlation;
};
struct resource_data {
  void *context, *stream;
  const void *descriptor;
};
struct module_data {
  uint32_t id;
  size_t bytes;
  const void *image;
};

static callback subscriber;
// The only context, and its number. After a reset, a new context has the same handle.
static int context;
static uint32_t context_number = 1;
// A context of another device. It is never current in the program, but may own streams.
static int other_context;
enum { OTHER_NUMBER = 4711, OF_OTHER = 16 };
static __thread int is_other_current;
static unsigned char wanted[4][1024];

CUresult cuptiSubscribe(void **handle, callback function, void *data) {
  (void)data;
  if (getenv("FAKE_SUBSCRIBED")) return 39;
  *handle = &subscriber;
  subscriber = function;
  return SUCCESS;
}

CUresult cuptiEnableCallback(uint32_t enable, void *handle, unsigned domain, unsigned id) {
  if (handle != (void *)&subscriber || domain > 3 || id >= 1024) return INVALID;
  wanted[domain][id] = (unsigned char)enable;
  return SUCCESS;
}

// Calls the subscriber before and after a call.
static CUresult with_callbacks(unsigned id, const void *params, const char *symbol, CUresult (*call)(const void *)) {
  static uint32_t calls;
  CUresult status = SUCCESS;
  uint64_t between = 0;
  int is_wanted = subscriber && wanted[DRIVER][id];
  struct call_data data = {0, "", params, &status, symbol, &context, context_number, &between, __sync_add_and_fetch(&calls, 1)};
  if (is_wanted) subscriber(NULL, DRIVER, id, &data);
  status = call(params);
  data.site = 1;
  if (is_wanted) subscriber(NULL, DRIVER, id, &data);
  return status;
}

/* Like a real driver, this one ends with its process: after exit handlers that were registered later, and
 * before library destructors. */
static void say_early(void);
static int is_gone;
static void goes(void) { is_gone = 1; }
enum { DEINITIALIZED = 4 };

CUresult cuInit(unsigned flags) {
  (void)flags;
  atexit(goes);
  if (getenv("FAKE_COUNTS_EARLY")) atexit(say_early);
  new_stream(0);
  const char *injection = getenv("CUDA_INJECTION64_PATH");
  if (injection) {
    void *library = dlopen(injection, RTLD_NOW);
    int (*start)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (!start) fail(dlerror());
    start();
  }
  struct resource_data data = {&context, NULL, NULL};
  if (subscriber && wanted[RESOURCES][CONTEXT_CREATED]) subscriber(NULL, RESOURCES, CONTEXT_CREATED, &data);
  return SUCCESS;
}

// ---------------------------------------------------------------- kernels

// The launch configuration.
struct spread {
  unsigned grid[3], block[3], shared, cluster[3], is_cooperative;
};

struct kernel {
  const char *name;
  // Whether its handle is a library kernel, which functions for function handles reject.
  int is_kernel;
  int is_loaded;
  int count;
  size_t offsets[MOST_PARAMETERS], sizes[MOST_PARAMETERS];
  void (*run)(void **);
  // A kernel of tensortap: the size of its one structure, and the function to run.
  size_t ours;
  void (*run_ours)(const void *);
  // The variables of its module. The symbols of managed variables have a flag.
  struct variable {
    const char *name;
    void *at;
    size_t bytes;
    int is_constant, is_managed;
  } variables[4];
  // Limit for its dynamic shared memory in bytes beyond the default.
  unsigned most_shared;
  // Whether its image has code, which never reads addresses of variables.
  int has_code;
  // A kernel that the program defined: a constant in its code, and its image.
  uint64_t code;
  char *image;
};

struct pack {
  uint64_t count;
  uint32_t *x, *y;
  uint32_t k, unused;
};

static void mix(void **parameters) {
  uint32_t *x = *(uint32_t **)parameters[0], *y = *(uint32_t **)parameters[1];
  uint32_t k = *(uint32_t *)parameters[2], count = *(uint32_t *)parameters[3];
  for (uint32_t at = 0; at < count; at++) y[at] = y[at] * 3 + x[at] + k;
}

static void put(void **parameters) {
  uint32_t *y = *(uint32_t **)parameters[0];
  uint32_t k = *(uint32_t *)parameters[1], count = *(uint32_t *)parameters[2];
  for (uint32_t at = 0; at < count; at++) y[at] = k + at;
}

static void fold(void **parameters) {
  struct pack *pack = parameters[0];
  for (uint64_t at = 0; at < pack->count; at++) pack->y[at] ^= pack->x[at] + pack->k;
}

// Variables of two modules that have a kernel of the same name.
static uint32_t total, bias[4] = {1, 20, 300, 4000}, seen_by_host[2] = {5, 6}, other_total = 1000;

static void tally(void **parameters) {
  uint32_t *y = *(uint32_t **)parameters[0], count = *(uint32_t *)parameters[1];
  for (uint32_t at = 0; at < count; at++) y[at] += bias[at % 4] + total;
  total += count;
  seen_by_host[1]++;
}

static void other_tally(void **parameters) {
  uint32_t *y = *(uint32_t **)parameters[0], count = *(uint32_t *)parameters[1];
  for (uint32_t at = 0; at < count; at++) y[at] -= other_total++;
}

// Variables of a module whose kernel cannot know the address of the first one.
static uint32_t plain_counter = 4, plain_weights[2] = {8, 9};

// The configuration of the launch that is running. Only the thread of its stream reads it.
static __thread const struct spread *running;

static void spread(void **parameters) { memcpy(*(void **)parameters[0], running, sizeof *running); }

static struct kernel kernels[] = {
    {"spread", 0, 0, 1, {0}, {8}, spread, 0, NULL, {{0}}, 0, 0, 0, NULL},
    {"mix", 0, 0, 4, {0, 8, 16, 20}, {8, 8, 4, 4}, mix, 0, NULL, {{0}}, 0, 0, 0, NULL},
    {"put", 1, 0, 3, {0, 8, 12}, {8, 4, 4}, put, 0, NULL, {{0}}, 0, 0, 0, NULL},
    {"fold", 0, 0, 1, {0}, {sizeof(struct pack)}, fold, 0, NULL, {{0}}, 0, 0, 0, NULL},
    {"tally", 0, 0, 2, {0, 8}, {8, 4}, tally, 0, NULL,
     {{"total", &total, 4, 0, 0}, {"bias", bias, 16, 1, 0}, {"seen_by_host", seen_by_host, 8, 0, 1}, {"$str", &total, 4, 0, 0}}, 0, 0, 0, NULL},
    {"plain", 0, 0, 3, {0, 8, 12}, {8, 4, 4}, put, 0, NULL,
     {{"counter", &plain_counter, 4, 0, 0}, {"weights", plain_weights, 8, 1, 0}}, 0, 1, 0, NULL},
    {"tally", 1, 0, 2, {0, 8}, {8, 4}, other_tally, 0, NULL, {{"total", &other_total, 4, 0, 0}}, 0, 0, 0, NULL},
};

// The kernels that tensortap loads.
static struct kernel our_kernels[] = {
    {"tt_hash_leaves", 0, 1, 0, {0}, {0}, NULL, sizeof(struct our_side), run_hash, {{0}}, 0, 0, 0, NULL},
    {"tt_hash_spread", 0, 1, 0, {0}, {0}, NULL, sizeof(struct our_side), run_hash, {{0}}, 0, 0, 0, NULL},
    {"tt_hash_many", 0, 1, 0, {0}, {0}, NULL, sizeof(struct our_many), run_many, {{0}}, 0, 0, 0, NULL},
    {"tt_measure_leaves", 0, 1, 0, {0}, {0}, NULL, sizeof(struct our_side), run_measure, {{0}}, 0, 0, 0, NULL},
    {"tt_keep", 0, 1, 0, {0}, {0}, NULL, sizeof(struct our_keeping), run_keep, {{0}}, 0, 0, 0, NULL},
};
static int is_current;
CUresult cuCtxPushCurrent_v2(void *pushed) {
  is_current++;
  is_other_current = pushed == &other_context;
  return pushed == &context || is_other_current ? SUCCESS : INVALID;
}
CUresult cuCtxPopCurrent_v2(void **popped) {
  is_current--;
  is_other_current = 0;
  *popped = &context;
  return SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(void **retained, int device) {
  *retained = &context;
  return device;
}
CUresult cuCtxSetCurrent(void *set) { return set == &context ? SUCCESS : INVALID; }

// Kernels that the program defined.
static struct kernel *defined[64];
static int defined_count;

// An image with the sections of a kernel and symbols for its variables.
static const char *image_of(struct kernel *kernel) {
  enum { TEXTS = 64, SYMBOLS = 256, STRINGS = 512, SECTIONS = 768, CODE = 1280, COUNT = 7 };
  static char images[sizeof kernels / sizeof *kernels][IMAGE_BYTES];
  char *bytes = kernel->image ? kernel->image : images[kernel - kernels];
  if (*bytes) return bytes;
  memcpy(bytes, "\x7f" "ELF\x02\x01\x01", 7);
  const char *names[COUNT] = {"", ".text.", ".nv.global", ".nv.constant3", ".symtab", ".strtab", ".shstrtab"};
  uint64_t at = TEXTS, sections = SECTIONS;
  memcpy(bytes + 40, &sections, 8);
  bytes[48] = ARCHITECTURE, bytes[58] = 64, bytes[60] = COUNT, bytes[62] = COUNT - 1;
  for (int section = 0; section < COUNT; section++) {
    uint32_t name = (uint32_t)(at - TEXTS);
    memcpy(bytes + SECTIONS + 64 * section, &name, 4);
    at += (uint64_t)sprintf(bytes + at, "%s%s", names[section], section == 1 ? kernel->name : "") + 1;
  }
  // The first symbol is empty.
  uint64_t strings = STRINGS + 1, count = 1;
  for (struct variable *variable = kernel->variables; variable < kernel->variables + 4 && variable->name; variable++, count++) {
    char *symbol = bytes + SYMBOLS + 24 * count;
    uint32_t name = (uint32_t)(strings - STRINGS);
    memcpy(symbol, &name, 4), memcpy(symbol + 16, &variable->bytes, 8);
    symbol[4] = 1, symbol[5] = variable->is_managed ? 4 : 0, symbol[6] = variable->is_constant ? 3 : 2;
    strings += (uint64_t)sprintf(bytes + strings, "%s", variable->name) + 1;
  }
  if (kernel->has_code) {
    // A symbol for the kernel with its flag, and two instructions that do nothing.
    char *symbol = bytes + SYMBOLS + 24 * count++;
    symbol[4] = 2, symbol[5] = 0x10, symbol[6] = 1, bytes[18] = (char)190;
    // The first instruction has the constant. The decoder takes it for the operands of an unknown operation.
    memcpy(bytes + CODE + 8, &kernel->code, 8);
  }
  struct {
    int section, kind;
    uint64_t start, bytes;
  } contents[] = {{1, 1, CODE, kernel->has_code ? 32 : 0}, {4, 2, SYMBOLS, 24 * count}, {5, 3, STRINGS, strings - STRINGS}, {6, 3, TEXTS, at - TEXTS}};
  for (int place = 0; place < 4; place++) {
    char *section = bytes + SECTIONS + 64 * contents[place].section;
    memcpy(section + 24, &contents[place].start, 16);
    section[4] = (char)contents[place].kind;
  }
  bytes[SECTIONS + 64 * 4 + 40] = 5, bytes[SECTIONS + 64 * 4 + 56] = 24;
  for (int section = 1; section < 4; section++) bytes[SECTIONS + 64 * section + 4] = section == 2 ? 8 : 1;
  return bytes;
}

static void load(struct kernel *kernel) {
  if (kernel->is_loaded) return;
  kernel->is_loaded = 1;
  uint32_t number = 0;
  while (number < (uint32_t)defined_count && defined[number] != kernel) number++;
  number = kernel->image ? 1000 + number : (uint32_t)(kernel - kernels) + 1;
  struct module_data module = {number, IMAGE_BYTES, image_of(kernel)};
  struct resource_data data = {NULL, NULL, &module};
  if (subscriber && wanted[RESOURCES][MODULE_LOADED]) subscriber(NULL, RESOURCES, MODULE_LOADED, &data);
}

// The initial values of variables.
static char initial[sizeof kernels / sizeof *kernels][4][16];
__attribute__((constructor)) static void keep_initial(void) {
  for (size_t at = 0; at < sizeof kernels / sizeof *kernels; at++)
    for (int which = 0; which < 4 && kernels[at].variables[which].name; which++)
      memcpy(initial[at][which], kernels[at].variables[which].at, kernels[at].variables[which].bytes);
}

// Loads a recorded image again. It becomes a new module, and its only kernel is a function.
static CUresult load_image(CUmodule *module, const char *image) {
  int architecture = 0;
  cuDeviceGetAttribute(&architecture, 75, 0);
  if (image[48] / 10 != architecture) return NO_BINARY;
  for (size_t at = 0; at < sizeof kernels / sizeof *kernels; at++) {
    if (memcmp(image_of(&kernels[at]), image, IMAGE_BYTES)) continue;
    for (int which = 0; which < 4 && kernels[at].variables[which].name; which++)
      memcpy(kernels[at].variables[which].at, initial[at][which], kernels[at].variables[which].bytes);
    *module = malloc(sizeof **module);
    **module = kernels[at];
    (*module)->is_kernel = 0, (*module)->is_loaded = 1;
    return SUCCESS;
  }
  return INVALID_IMAGE;
}
CUresult cuModuleUnload(CUmodule module) {
  free(module);
  return SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  if (getenv("FAKE_LOADS_NOTHING")) return 218;
  if (!memcmp(image, "\x7f" "ELF", 4)) return load_image(module, image);
  if (strncmp(image, "// tensortap device-kernels ", 28) || !is_current) return INVALID;
  *module = our_kernels;
  struct module_data data = {99, strlen(image), image};
  struct resource_data resource = {&context, NULL, &data};
  if (subscriber && wanted[RESOURCES][MODULE_LOADED]) subscriber(NULL, RESOURCES, MODULE_LOADED, &resource);
  return SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  for (int at = 0; at < (module == our_kernels ? (int)(sizeof our_kernels / sizeof *our_kernels) : 1); at++)
    if (!strcmp(module[at].name, name)) return *function = &module[at], SUCCESS;
  return NOT_FOUND;
}

// A module has one kernel and the same handle.
CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
  *module = function;
  return SUCCESS;
}
struct variable_params {
  CUdeviceptr *at;
  size_t *bytes;
  CUmodule module;
  const char *name;
};
static CUresult do_variable(const void *params) {
  const struct variable_params *p = params;
  if (getenv("FAKE_HIDES_VARIABLES")) return INVALID;
  for (struct variable *variable = p->module->variables; variable < p->module->variables + 4 && variable->name; variable++)
    if (!strcmp(variable->name, p->name)) {
      *p->at = (CUdeviceptr)variable->at, *p->bytes = variable->bytes;
      return SUCCESS;
    }
  return INVALID;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name) {
  struct variable_params p = {at, bytes, module, name};
  return with_callbacks(241, &p, NULL, do_variable);
}

// Like the CUDA runtime, this asks without a callback.
CUdeviceptr fake_variable(CUmodule module, const char *name) {
  CUdeviceptr at = 0;
  size_t bytes;
  struct variable_params p = {&at, &bytes, module, name};
  do_variable(&p);
  return at;
}
// Only for variables. Tests know all other memory.
CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr of) {
  for (size_t at = 0; at < sizeof kernels / sizeof *kernels; at++)
    for (struct variable *variable = kernels[at].variables; variable < kernels[at].variables + 4 && variable->name; variable++)
      if ((CUdeviceptr)variable->at == of) {
        *start = of, *bytes = variable->bytes;
        return SUCCESS;
      }
  return INVALID;
}

// If two kernels have the same name, the second one's name is given with an apostrophe.
CUfunction fake_kernel(const char *name) {
  size_t last = sizeof kernels / sizeof *kernels - 1;
  if (!strcmp(name, "tally'")) return &kernels[last];
  for (size_t at = 0; at < last; at++)
    if (!strcmp(kernels[at].name, name)) return &kernels[at];
  fail("no such kernel");
  return NULL;
}

CUfunction fake_define(const char *name, int count, const size_t *offsets, const size_t *sizes, uint64_t code, void (*run)(void **)) {
  if (count > MOST_PARAMETERS || defined_count == sizeof defined / sizeof *defined) fail("too many kernels or parameters");
  struct kernel *kernel = defined[defined_count++] = calloc(1, sizeof *kernel);
  kernel->name = strdup(name), kernel->image = calloc(1, IMAGE_BYTES);
  kernel->count = count, kernel->run = run, kernel->has_code = 1, kernel->code = code;
  memcpy(kernel->offsets, offsets, (size_t)count * sizeof *offsets);
  memcpy(kernel->sizes, sizes, (size_t)count * sizeof *sizes);
  return kernel;
}

int fake_is_kernel(CUfunction kernel) { return kernel->is_kernel; }
static CUresult parameter(struct kernel *kernel, size_t at, size_t *offset, size_t *size) {
  if (at >= (size_t)kernel->count) return INVALID;
  *offset = kernel->offsets[at], *size = kernel->sizes[at];
  return SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction kernel, size_t at, size_t *offset, size_t *size) {
  return kernel->is_kernel ? INVALID : parameter(kernel, at, offset, size);
}
CUresult cuKernelGetParamInfo(CUfunction kernel, size_t at, size_t *offset, size_t *size) {
  return kernel->is_kernel ? parameter(kernel, at, offset, size) : INVALID;
}
CUresult cuKernelGetFunction(CUfunction *function, CUfunction kernel) {
  *function = kernel;
  return kernel->is_kernel ? SUCCESS : INVALID;
}
CUresult cuFuncLoad(CUfunction kernel) {
  load(kernel);
  return SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction kernel, int attribute, int value) {
  if (attribute == 8) kernel->most_shared = (unsigned)value;
  return SUCCESS;
}

struct launch {
  struct kernel *kernel;
  char bytes[256];
  struct spread spread;
  void *data;
};

// What the next launch of this thread gets, and what the launch that is running got.
static __thread void *next_data, *running_data;
void fake_next_data(void *data) { next_data = data; }
void *fake_running_data(void) { return running_data; }

static void run_launch(void *data) {
  struct launch *launch = data;
  void *parameters[MOST_PARAMETERS];
  for (int at = 0; at < launch->kernel->count; at++) parameters[at] = launch->bytes + launch->kernel->offsets[at];
  running = &launch->spread, running_data = launch->data;
  int is_wrong = go_wrong(goes_wrong(launch->kernel->name));
  launch->kernel->run(parameters);
  if (is_wrong) **(uint32_t **)parameters[0] += 1;
}

struct our_launch {
  struct kernel *kernel;
  char bytes[4096];
};
static void run_our_launch(void *data) {
  struct our_launch *launch = data;
  launch->kernel->run_ours(launch->bytes);
}

static void pack(struct launch *launch, void **parameters, void **extra) {
  struct kernel *kernel = launch->kernel;
  if (parameters)
    for (int at = 0; at < kernel->count; at++)
      memcpy(launch->bytes + kernel->offsets[at], parameters[at], kernel->sizes[at]);
  else
    memcpy(launch->bytes, extra[1], *(size_t *)extra[3]);
}

// A launch as a graph node.
static struct node *launch_node(CUgraph graph, const struct launch *launch) {
  struct node *node = new_node(graph, NODE_KERNEL, run_launch, launch, sizeof *launch);
  node->kernel = launch->kernel;
  for (int at = 0; at < launch->kernel->count; at++)
    node->parameters[at] = ((struct launch *)(void *)node->data)->bytes + launch->kernel->offsets[at];
  return node;
}

// A launch of tensortap may overlap with its predecessor. A launch of the program lets others begin before
// its results are complete, so nothing may overlap with it.
static __thread int is_early;
static int early_launches;
static int overlaps(void) { return architecture() >= 90; }
static void say_early(void) { fprintf(stderr, "fake driver: %d launches began early\n", early_launches); }

static void submit_own_kernel(CUstream handle, const struct our_launch *ours) {
  const struct our_side *side = (const void *)ours->bytes;
  int hashes = strcmp(ours->kernel->name, "tt_keep"), order = hashes ? (int)side->order : 0;
  struct stream *stream = stream_of(handle);
  const void *beside = stream->beside;
  if (order && !overlaps()) fail("this device does not support overlapping launches");
  if (is_early != (order & OUR_BESIDE)) fail("a launch begins early without declaring it, or declares it and does not");
  if (order == (OUR_BESIDE | OUR_LETS_NEXT)) fail("three launches overlap");
  if (is_early && !beside) fail("a launch begins early after one that is not tensortap's");
  int is_over = __atomic_load_n(&is_done[stream->ticket % MOST_TICKETS], __ATOMIC_ACQUIRE);
  if (is_early && beside == side->finished && !is_over) fail("two launches that overlap use the same working memory");
  early_launches += is_early;
  submit(handle, run_our_launch, ours, sizeof *ours);
  if (order & OUR_LETS_NEXT) stream->beside = side->finished, stream->ticket = side->ticket;
}

static CUresult launch(struct kernel *kernel, CUstream stream, struct spread spread, void **parameters, void **extra) {
  if (spread.grid[0] == 0 || (spread.shared > 48 << 10 && spread.shared > kernel->most_shared)) return INVALID;
  // A launch call that takes long.
  if (spread.grid[0] == 777) usleep(400000);
  if (kernel->ours) {
    static int refused;
    if (getenv("FAKE_REFUSES_A_COPY") && !strcmp(kernel->name, "tt_keep") && !refused++) return INVALID;
    struct our_launch ours = {kernel, {0}};
    memcpy(ours.bytes, parameters[0], kernel->ours);
    if (stream_of(stream)->captures) fail("a command of tensortap enters a captured stream");
    submit_own_kernel(stream, &ours);
    return SUCCESS;
  }
  struct launch launch = {kernel, {0}, spread, next_data};
  pack(&launch, parameters, extra);
  if (stream_of(stream)->captures) {
    launch_node(stream_of(stream)->graph, &launch);
    return SUCCESS;
  }
  load(kernel);
  if (is_early && stream_of(stream)->beside) fail("a launch of the program overlaps with one of tensortap");
  submit(stream, run_launch, &launch, sizeof launch);
  return SUCCESS;
}

struct launch_params {
  CUfunction kernel;
  unsigned grid[3], block[3], shared;
  CUstream stream;
  void **parameters, **extra;
};
static CUresult do_launch(const void *params) {
  const struct launch_params *p = params;
  struct spread spread = {{p->grid[0], p->grid[1], p->grid[2]}, {p->block[0], p->block[1], p->block[2]}, p->shared, {0}, 0};
  return launch(p->kernel, p->stream, spread, p->parameters, p->extra);
}
CUresult cuLaunchKernel(CUfunction kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra) {
  struct launch_params p = {kernel, {gx, gy, gz}, {bx, by, bz}, shared, stream, parameters, extra};
  return with_callbacks(307, &p, kernel->name, do_launch);
}

struct launch_ex_params {
  const CUlaunchConfig *config;
  CUfunction kernel;
  void **parameters, **extra;
};
static CUresult do_launch_ex(const void *params) {
  const struct launch_ex_params *p = params;
  const CUlaunchConfig *c = p->config;
  struct spread spread = {{c->grid[0], c->grid[1], c->grid[2]}, {c->block[0], c->block[1], c->block[2]}, c->shared, {0}, 0};
  for (unsigned at = 0; at < c->attribute_count; at++) {
    const CUlaunchAttribute *attribute = c->attributes + at;
    if (attribute->id == 2) spread.is_cooperative = attribute->value[0];
    if (attribute->id == 4) memcpy(spread.cluster, attribute->value, sizeof spread.cluster);
    if (attribute->id == 6) is_early = attribute->value[0] != 0;
  }
  CUresult status = launch(p->kernel, c->stream, spread, p->parameters, p->extra);
  is_early = 0;
  return status;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction kernel, void **parameters, void **extra) {
  struct launch_ex_params p = {config, kernel, parameters, extra};
  return with_callbacks(652, &p, kernel->name, do_launch_ex);
}

// ---------------------------------------------------------------- memory

// Virtual memory without access rights. A real driver would report an error here.
static struct {
  CUdeviceptr at;
  size_t bytes;
} forbidden;

static void check_read(CUdeviceptr at, size_t bytes) {
  if (forbidden.bytes && at < forbidden.at + forbidden.bytes && forbidden.at < at + bytes) fail("memory without access rights is read");
}

// Memory of the context and of destroyed contexts. Writes to memory of a destroyed context are detected.
enum { MOST_MEMORY = 4096, GONE = 0xEE };
static struct {
  char *at;
  size_t bytes;
  int is_gone;
} memory[MOST_MEMORY];
static int memory_count;

static void check_gone(void) {
  for (int which = 0; which < memory_count; which++) {
    const char *at = memory[which].at;
    size_t bytes = memory[which].bytes;
    if (memory[which].is_gone && bytes && (*at != (char)GONE || memcmp(at, at + 1, bytes - 1))) fail("memory of a destroyed context was written");
  }
}

struct alloc_params {
  CUdeviceptr *at;
  size_t bytes;
};
static CUresult do_alloc(const void *params) {
  const struct alloc_params *p = params;
  *p->at = (CUdeviceptr)malloc(p->bytes);
  // New memory is never zeros.
  memset((void *)*p->at, 0xA5, p->bytes);
  pthread_mutex_lock(&lock);
  if (memory_count == MOST_MEMORY) fail("too much memory");
  memory[memory_count].at = (char *)*p->at, memory[memory_count++].bytes = p->bytes;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
  struct alloc_params p = {at, bytes};
  return with_callbacks(243, &p, NULL, do_alloc);
}
static CUresult do_free(const void *params) {
  pthread_mutex_lock(&lock);
  for (int at = 0; at < memory_count; at++)
    if (memory[at].at == *(char *const *)params) {
      memory[at] = memory[--memory_count];
      break;
    }
  pthread_mutex_unlock(&lock);
  free(*(void *const *)params);
  return SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr at) { return with_callbacks(245, &at, NULL, do_free); }

// Memory in stream order. The driver returns an address at once, and reuses the memory after the stream has come so far.
struct pool_params {
  CUdeviceptr *at;
  size_t bytes;
  CUstream stream;
};
CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream) {
  struct pool_params p = {at, bytes, stream};
  return with_callbacks(598, &p, NULL, do_alloc);
}
struct from_pool_params {
  CUdeviceptr *at;
  size_t bytes;
  void *pool;
  CUstream stream;
};
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *at, size_t bytes, void *pool, CUstream stream) {
  struct from_pool_params p = {at, bytes, pool, stream};
  return with_callbacks(611, &p, NULL, do_alloc);
}
struct free_params {
  CUdeviceptr at;
  CUstream stream;
};
static void run_free(void *data) { do_free(data); }
static CUresult do_free_async(const void *params) {
  const struct free_params *p = params;
  submit(p->stream, run_free, &p->at, sizeof p->at);
  return SUCCESS;
}
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  struct free_params p = {at, stream};
  return with_callbacks(600, &p, NULL, do_free_async);
}

struct map_params {
  CUdeviceptr at;
  size_t bytes, offset;
  uint64_t handle;
  unsigned long long flags;
};
static CUresult do_map(const void *params) {
  const struct map_params *p = params;
  forbidden.at = p->at, forbidden.bytes = p->bytes;
  return SUCCESS;
}
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags) {
  struct map_params p = {at, bytes, offset, handle, flags};
  return with_callbacks(551, &p, NULL, do_map);
}
struct access_params {
  CUdeviceptr at;
  size_t bytes;
  const CUmemAccessDesc *descriptions;
  size_t count;
};
static CUresult do_access(const void *params) {
  const struct access_params *p = params;
  forbidden.bytes = 0;
  may_touch(p->at, p->bytes);
  return SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *descriptions, size_t count) {
  struct access_params p = {at, bytes, descriptions, count};
  return with_callbacks(553, &p, NULL, do_access);
}
static CUresult nothing(const void *params) {
  (void)params;
  return SUCCESS;
}
// Handles of textures and surfaces. Kernels of this driver do not read through them.
struct texture_params {
  uint64_t *texture;
  const void *resource, *description, *view;
};
static CUresult do_texture(const void *params) {
  const struct texture_params *p = params;
  *p->texture = *(const uint64_t *)p->resource;
  return SUCCESS;
}
CUresult cuTexObjectCreate(uint64_t *texture, const void *resource, const void *description, const void *view) {
  struct texture_params p = {texture, resource, description, view};
  return with_callbacks(339, &p, NULL, do_texture);
}
CUresult cuTexObjectDestroy(uint64_t texture) { return with_callbacks(340, &texture, NULL, nothing); }
CUresult cuSurfObjectCreate(uint64_t *surface, const void *resource) {
  struct texture_params p = {surface, resource, NULL, NULL};
  return with_callbacks(343, &p, NULL, do_texture);
}
CUresult cuSurfObjectDestroy(uint64_t surface) { return with_callbacks(344, &surface, NULL, nothing); }
CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  struct {
    void *at;
    size_t bytes;
    unsigned flags;
  } p = {at, bytes, flags};
  if (getenv("FAKE_PINS_SLOWLY")) usleep(700000);
  return with_callbacks(379, &p, NULL, nothing);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
  (void)flags;
  *device = (CUdeviceptr)host;
  return SUCCESS;
}
CUresult cuMemGetInfo_v2(size_t *unused, size_t *all) {
  *unused = *all = (size_t)1 << 30;
  return SUCCESS;
}

struct copy_params {
  CUdeviceptr to, from;
  size_t bytes;
  CUstream stream;
};
static void run_copy(void *data) {
  struct copy_params *copy = data;
  memmove((void *)copy->to, (void *)copy->from, copy->bytes);
}
static CUresult do_copy(const void *params) {
  const struct copy_params *p = params;
  if (stream_of(p->stream)->captures) {
    new_node(stream_of(p->stream)->graph, NODE_COPY, run_copy, p, sizeof *p);
    return SUCCESS;
  }
  check_read(p->from, p->bytes);
  submit(p->stream, run_copy, p, sizeof *p);
  return SUCCESS;
}
// A copy in the legacy stream that waits.
static CUresult do_copy_now(const void *params) {
  struct copy_params p = {0};
  memcpy(&p, params, offsetof(struct copy_params, stream));
  check_read(p.from, p.bytes);
  wait_for(streams[0], submit_waiting(NULL, run_copy, &p, sizeof p, NULL));
  return SUCCESS;
}
static CUresult copy(unsigned id, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, CUresult (*how)(const void *)) {
  struct copy_params p = {to, from, bytes, stream};
  return with_callbacks(id, &p, NULL, how);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) { return copy(276, to, (CUdeviceptr)from, bytes, NULL, do_copy_now); }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) { return copy(278, (CUdeviceptr)to, from, bytes, NULL, do_copy_now); }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) { return copy(277, to, (CUdeviceptr)from, bytes, stream, do_copy); }
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) { return is_gone ? DEINITIALIZED : copy(279, (CUdeviceptr)to, from, bytes, stream, do_copy); }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) { return copy(281, to, from, bytes, stream, do_copy); }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) { return copy(306, to, from, bytes, stream, do_copy); }

static void run_box(void *data) {
  CUDA_MEMCPY2D *copy = data;
  for (size_t row = 0; row < copy->height; row++)
    memcpy((char *)copy->dst_device + (copy->dst_y + row) * copy->dst_pitch + copy->dst_x,
           (char *)copy->src_device + (copy->src_y + row) * copy->src_pitch + copy->src_x, copy->width);
}
struct box_params {
  const CUDA_MEMCPY2D *copy;
  CUstream stream;
};
static CUresult do_box(const void *params) {
  const struct box_params *p = params;
  submit(p->stream, run_box, p->copy, sizeof *p->copy);
  return SUCCESS;
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
  struct box_params p = {copy, stream};
  return with_callbacks(289, &p, NULL, do_box);
}

struct fill_params {
  CUdeviceptr at;
  unsigned value;
  size_t count;
  CUstream stream;
};
static void run_fill(void *data) {
  struct fill_params *fill = data;
  for (size_t at = 0; at < fill->count; at++) ((uint32_t *)fill->at)[at] = fill->value;
}
static CUresult do_fill(const void *params) {
  const struct fill_params *p = params;
  if (stream_of(p->stream)->captures) {
    new_node(stream_of(p->stream)->graph, NODE_FILL, run_fill, p, sizeof *p);
    return SUCCESS;
  }
  submit(p->stream, run_fill, p, sizeof *p);
  return SUCCESS;
}
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream stream) {
  struct fill_params p = {at, value, count, stream};
  return with_callbacks(220, &p, NULL, do_fill);
}

// ---------------------------------------------------------------- streams and events, as programs call them

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  *stream = new_stream(flags);
  return SUCCESS;
}
CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
  *flags = stream_of(stream)->flags & 1;
  return SUCCESS;
}
CUresult cuStreamGetCtx(CUstream stream, void **of) {
  *of = stream_of(stream)->flags & OF_OTHER ? &other_context : &context;
  return SUCCESS;
}
CUresult cuptiGetContextId(void *of, uint32_t *number) {
  *number = of == &other_context ? OTHER_NUMBER : context_number;
  return SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, int *captures) {
  *captures = stream_of(stream)->captures;
  return SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  *mode = 0;
  return SUCCESS;
}
static CUresult do_capture(const void *params) {
  CUstream stream = *(CUstream const *)params;
  stream_of(stream)->captures = 1;
  return cuGraphCreate(&stream_of(stream)->graph, 0);
}
CUresult cuStreamBeginCapture(CUstream stream, int mode) {
  (void)mode;
  return with_callbacks(518, &stream, NULL, do_capture);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  stream_of(stream)->captures = 0;
  *graph = stream_of(stream)->graph;
  return SUCCESS;
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
  (void)before, (void)count;
  struct launch launch = {params->func ? params->func : params->kern, {0}, {{1, 1, 1}, {1, 1, 1}, 0, {0}, 0}, NULL};
  pack(&launch, params->parameters, params->extra);
  *node = launch_node(graph, &launch);
  return SUCCESS;
}
struct made_params {
  CUgraphExec *exec;
  CUgraph graph;
  unsigned long long flags;
};
static CUresult do_made(const void *params) {
  const struct made_params *p = params;
  *p->exec = calloc(1, sizeof **p->exec);
  flatten(*p->exec, p->graph);
  return SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  struct made_params p = {exec, graph, flags};
  return with_callbacks(643, &p, NULL, do_made);
}
struct set_params {
  CUgraphExec exec;
  CUgraphNode node;
  const CUDA_KERNEL_NODE_PARAMS *params;
};
static CUresult do_set(const void *params) {
  const struct set_params *p = params;
  for (int at = 0; at < p->exec->count; at++)
    if (p->exec->of[at] == p->node) pack((struct launch *)(void *)p->exec->nodes[at].data, p->params->parameters, p->params->extra);
  return SUCCESS;
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  struct set_params p = {exec, node, params};
  return with_callbacks(692, &p, NULL, do_set);
}
struct update_params {
  CUgraphExec exec;
  CUgraph graph;
  void *result;
};
static CUresult do_update(const void *params) {
  const struct update_params *p = params;
  p->exec->count = 0;
  flatten(p->exec, p->graph);
  return SUCCESS;
}
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *result) {
  struct update_params p = {exec, graph, result};
  return with_callbacks(696, &p, NULL, do_update);
}
static CUresult do_exec_free(const void *params) {
  free(*(void *const *)params);
  return SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) { return with_callbacks(516, &exec, NULL, do_exec_free); }
struct graph_params {
  CUgraphExec exec;
  CUstream stream;
};
static CUresult do_graph(const void *params) {
  const struct graph_params *p = params;
  for (int at = 0; at < p->exec->count; at++) submit(p->stream, p->exec->nodes[at].run, p->exec->nodes[at].data, p->exec->nodes[at].size);
  return SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  struct graph_params p = {exec, stream};
  return with_callbacks(514, &p, NULL, do_graph);
}
static CUresult do_sync(const void *params) {
  struct stream *stream = stream_of(*(const CUstream *)params);
  wait_for(stream, stream->submitted);
  return SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) { return with_callbacks(126, &stream, NULL, do_sync); }
static CUresult do_sync_all(const void *params) {
  (void)params;
  for (int at = 0; at < stream_count; at++) wait_for(streams[at], streams[at]->submitted);
  check_gone();
  return context_status;
}
CUresult cuCtxSynchronize(void) { return with_callbacks(17, NULL, NULL, do_sync_all); }

// The commands in the stream still run.
static CUresult do_stream_gone(const void *params) {
  stream_of(*(const CUstream *)params)->is_gone = 1;
  return SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) { return with_callbacks(326, &stream, NULL, do_stream_gone); }

void fake_reset(void) {
  struct resource_data data = {&context, NULL, NULL};
  if (subscriber && wanted[RESOURCES][CONTEXT_GOES]) subscriber(NULL, RESOURCES, CONTEXT_GOES, &data);
  do_sync_all(NULL);
  for (int at = 0; at < memory_count; at++) {
    if (!memory[at].is_gone) memset(memory[at].at, GONE, memory[at].bytes);
    memory[at].is_gone = 1;
  }
  for (int at = 1; at < stream_count; at++) streams[at]->is_gone = 1;
  context_number++;
  if (subscriber && wanted[RESOURCES][CONTEXT_CREATED]) subscriber(NULL, RESOURCES, CONTEXT_CREATED, &data);
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof **event);
  (*event)->context = context_number;
  return SUCCESS;
}
struct event_params {
  CUevent event;
  CUstream stream;
};
static CUresult do_record(const void *params) {
  const struct event_params *p = params;
  struct stream *stream = stream_of(p->stream);
  if (p->event->context != context_number) fail("an event of a destroyed context is recorded");
  if (getenv("FAKE_RECORDS_NO_EVENTS")) return INVALID;
  pthread_mutex_lock(&lock);
  p->event->count = legacy_waits(stream, p->event->waits);
  p->event->waits[p->event->count++] = (struct wait){stream, stream->submitted};
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  struct event_params p = {event, stream};
  return with_callbacks(119, &p, NULL, do_record);
}
static CUresult do_event_sync(const void *params) {
  CUevent event = *(const CUevent *)params;
  for (int at = 0; at < event->count; at++) wait_for(event->waits[at].stream, event->waits[at].count);
  return SUCCESS;
}
CUresult cuEventQuery(CUevent event) {
  int is_done = 1;
  pthread_mutex_lock(&lock);
  for (int at = 0; at < event->count; at++) is_done &= is_over(event->waits[at]);
  pthread_mutex_unlock(&lock);
  return is_done ? SUCCESS : NOT_READY;
}
CUresult cuEventSynchronize(CUevent event) { return with_callbacks(121, &event, NULL, do_event_sync); }
static void run_nothing(void *data) { (void)data; }
struct wait_params {
  CUstream stream;
  CUevent event;
  unsigned flags;
};
static CUresult do_wait(const void *params) {
  const struct wait_params *p = params;
  submit_waiting(p->stream, run_nothing, NULL, 0, p->event);
  return SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  struct wait_params p = {stream, event, flags};
  return with_callbacks(295, &p, NULL, do_wait);
}
struct host_function {
  void (*function)(void *);
  void *data;
};
static void run_function(void *data) {
  struct host_function *call = data;
  call->function(call->data);
}
struct host_launch {
  CUstream stream;
  struct host_function call;
};
static CUresult do_host_function(const void *params) {
  const struct host_launch *p = params;
  submit(p->stream, run_function, &p->call, sizeof p->call);
  return SUCCESS;
}
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data) {
  struct host_launch p = {stream, {function, data}};
  return with_callbacks(527, &p, NULL, do_host_function);
}

CUresult cuCtxGetDevice(int *device) {
  *device = is_other_current;
  return SUCCESS;
}
CUresult cuDeviceGetName(char *name, int bytes, int device) {
  snprintf(name, (size_t)bytes, device ? "other device" : "fake device");
  return SUCCESS;
}
