// Graphs of the fake driver: a list of nodes, which run one after the other in the stream of the launch.
#pragma once
#include "fake.h"
#include "streams.h"

enum { MOST_NODES = 256, NODE_KERNEL = 0, NODE_COPY = 1, NODE_FILL = 2, NODE_HOST = 3, NODE_GRAPH = 4 };

struct node {
  int kind;
  // The function to run and its data. For a kernel, `bytes` has the parameters.
  void (*run)(void *);
  size_t size;
  union {
    char data[512];
    uint64_t words[64];
  };
  // For a kernel: where its parameters are, as the driver reports it.
  CUfunction kernel;
  void *parameters[MOST_PARAMETERS];
  CUgraph child;
};

struct graph {
  int count;
  struct node *nodes[MOST_NODES];
};

struct exec {
  int count;
  // Copies of the nodes, and the nodes of the graph that they were copied from.
  struct node nodes[MOST_NODES];
  CUgraphNode of[MOST_NODES];
};

static struct node *new_node(CUgraph graph, int kind, void (*run)(void *), const void *data, size_t size) {
  if (graph->count == MOST_NODES || size > sizeof((struct node *)0)->data) fail("too much for a graph");
  struct node *node = calloc(1, sizeof *node);
  node->kind = kind, node->run = run, node->size = size;
  if (size) memcpy(node->data, data, size);
  graph->nodes[graph->count++] = node;
  return node;
}

static void flatten(struct exec *exec, CUgraph graph) {
  for (int at = 0; at < graph->count; at++) {
    if (graph->nodes[at]->kind == NODE_GRAPH) {
      flatten(exec, graph->nodes[at]->child);
      continue;
    }
    if (exec->count == MOST_NODES) fail("too many nodes");
    exec->of[exec->count] = graph->nodes[at];
    exec->nodes[exec->count++] = *graph->nodes[at];
  }
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
  (void)flags;
  *graph = calloc(1, sizeof **graph);
  return 0;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  for (size_t at = 0; nodes && at < *count && at < (size_t)graph->count; at++) nodes[at] = graph->nodes[at];
  *count = (size_t)graph->count;
  return 0;
}
CUresult cuGraphNodeGetType(CUgraphNode node, int *kind) {
  *kind = node->kind;
  return 0;
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) {
  memset(params, 0, sizeof *params);
  // A library kernel is reported as such.
  if (fake_is_kernel(node->kernel)) params->kern = node->kernel;
  else params->func = node->kernel;
  params->parameters = node->parameters;
  return node->kind == NODE_KERNEL ? 0 : 1;
}
// The driver reports copies as boxes.
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, uint64_t *box) {
  memset(box, 0, 25 * 8);
  // Destination, source, size.
  box[4] = 2, box[6] = node->words[1], box[15] = 2, box[17] = node->words[0], box[22] = node->words[2], box[23] = box[24] = 1;
  return node->kind == NODE_COPY ? 0 : 1;
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, uint64_t *fill) {
  // Address, value, number of elements of four bytes.
  fill[0] = node->words[0], fill[1] = 0, fill[2] = (node->words[1] & 0xffffffffu) | 4ull << 32, fill[3] = node->words[2], fill[4] = 1;
  return node->kind == NODE_FILL ? 0 : 1;
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
  *graph = node->child;
  return node->kind == NODE_GRAPH ? 0 : 1;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraph child) {
  (void)before, (void)count;
  *node = new_node(graph, NODE_GRAPH, NULL, NULL, 0);
  (*node)->child = child;
  return 0;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **before, size_t *count) {
  struct stream *captured = stream_of(stream);
  *status = captured->captures, *id = 1, *graph = captured->graph, *before = NULL, *count = 0;
  return 0;
}
