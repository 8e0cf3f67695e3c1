// Streams of the fake driver: each is a thread that executes one command after the other, after the commands
// that it waits for.
#pragma once
#include "fake.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WAITS = 64, MOST_STREAMS = 16 };

static void fail(const char *what) {
  fprintf(stderr, "fake driver: %s\n", what);
  _exit(70);
}

struct wait {
  struct stream *stream;
  uint64_t count;
};

struct op {
  void (*run)(void *);
  void *data;
  struct wait waits[MOST_WAITS];
  int wait_count;
  int is_quick;
  struct op *next;
};

struct stream {
  unsigned flags;
  // Whether the stream is destroyed, so that a new one may get its handle.
  int is_gone;
  int captures;
  // The graph that it is captured into.
  CUgraph graph;
  uint64_t submitted, done;
  struct op *first, *last;
  // If the last command is a launch that lets its successor overlap: its working memory and its ticket.
  const void *beside;
  uint64_t ticket;
};

struct event {
  // Number of its context.
  uint32_t context;
  struct wait waits[MOST_WAITS];
  int count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct stream *streams[MOST_STREAMS];
static int stream_count;

static int is_over(struct wait wait) { return wait.stream->done >= wait.count; }

static void *work(void *of) {
  struct stream *stream = of;
  unsigned seed = (unsigned)(uintptr_t)stream;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!stream->first) pthread_cond_wait(&changed, &lock);
    struct op *op = stream->first;
    for (int at = 0; at < op->wait_count; at++)
      while (!is_over(op->waits[at])) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (!op->is_quick && rand_r(&seed) % 4 == 0) usleep(rand_r(&seed) % 300);
    op->run(op->data);
    pthread_mutex_lock(&lock);
    stream->first = op->next;
    if (!stream->first) stream->last = NULL;
    stream->done++;
    free(op->data);
    free(op);
    pthread_cond_broadcast(&changed);
  }
  return NULL;
}

static struct stream *new_stream(unsigned flags) {
  pthread_mutex_lock(&lock);
  for (int at = 1; at < stream_count; at++)
    if (streams[at]->is_gone && streams[at]->done == streams[at]->submitted) {
      streams[at]->flags = flags, streams[at]->is_gone = 0;
      pthread_mutex_unlock(&lock);
      return streams[at];
    }
  struct stream *stream = calloc(1, sizeof *stream);
  stream->flags = flags;
  if (stream_count == MOST_STREAMS) fail("too many streams");
  streams[stream_count++] = stream;
  pthread_mutex_unlock(&lock);
  pthread_t thread;
  pthread_create(&thread, NULL, work, stream);
  pthread_detach(thread);
  return stream;
}

// Handles 0 and 1 are the legacy stream, which is created first.
static struct stream *stream_of(CUstream handle) { return (uintptr_t)handle <= 1 ? streams[0] : handle; }

// The caller holds the lock.
static int legacy_waits(struct stream *stream, struct wait *waits) {
  int count = 0;
  if (stream == streams[0]) {
    for (int at = 1; at < stream_count; at++)
      if (!(streams[at]->flags & 1)) waits[count++] = (struct wait){streams[at], streams[at]->submitted};
  } else if (!(stream->flags & 1)) {
    waits[count++] = (struct wait){streams[0], streams[0]->submitted};
  }
  return count;
}

static uint64_t submit_waiting(CUstream handle, void (*run)(void *), const void *data, size_t bytes, const struct event *event) {
  struct stream *stream = stream_of(handle);
  struct op *op = calloc(1, sizeof *op);
  op->run = run;
  op->data = malloc(bytes ? bytes : 1);
  if (bytes) memcpy(op->data, data, bytes);
  pthread_mutex_lock(&lock);
  if (stream->captures) fail("a command entered a captured stream");
  op->wait_count = legacy_waits(stream, op->waits);
  for (int at = 0; event && at < event->count; at++) op->waits[op->wait_count++] = event->waits[at];
  if (stream->last) stream->last->next = op;
  else stream->first = op;
  stream->last = op;
  uint64_t number = ++stream->submitted;
  stream->beside = NULL;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return number;
}

static void submit(CUstream handle, void (*run)(void *), const void *data, size_t bytes) {
  submit_waiting(handle, run, data, bytes, NULL);
}

static void wait_for(struct stream *stream, uint64_t count) {
  pthread_mutex_lock(&lock);
  while (stream->done < count) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}
