/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda_runtime_api.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

/* Streams, events and captures, for the files of the emulated runtime that have them. */

struct Operation
{
  std::string name;            /* of a launch */
  const char *other = nullptr; /* the kind of another operation within the device */
  std::vector<uint64_t> data;
  void (*run) (void *data);
  cudaEvent_t record = nullptr, wait = nullptr;
  uint64_t number = 0; /* of the record */
};

/* after: numbers of nodes of the same graph, which come before it */
struct Node
{
  std::shared_ptr<Operation> operation;
  std::vector<size_t> after;
};

struct OrtrainFakeGraph
{
  int device = 0;
  std::vector<Node> nodes;
};

struct OrtrainFakeGraphExec
{
  int device;
  std::vector<Node> nodes;
};

/* A graph while it is made, by the stream that has begun it, and those that have waited for an event in it since. */
struct Capture
{
  OrtrainFakeStream *origin;
  std::thread::id thread; /* that has begun it */
  std::vector<OrtrainFakeStream *> streams;
  std::unique_ptr<OrtrainFakeGraph> graph;
  bool invalid = false, is_over = false;
};

struct OrtrainFakeEvent
{
  std::mutex lock;
  std::condition_variable changed;
  int device = 0;
  uint64_t recorded = 0, reached = 0;
  std::shared_ptr<Capture> capture;           /* in which it was last recorded; NULL: in none */
  std::vector<size_t> after;                  /* nodes of it */
  std::chrono::steady_clock::time_point time; /* when it was last reached */
};

struct OrtrainFakeStream
{
  std::thread thread;
  std::mutex lock;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Operation> > queue;
  bool running = false, stops = false, blocking = false;
  int device = 0;
  uint32_t random = 1;
  std::atomic<bool> has_graphs{ false };
  std::shared_ptr<Capture> capture; /* that it takes part in; NULL: none */
  std::vector<size_t> after;        /* nodes of it that the stream's next one comes after */
};

cudaError_t fake_cuda_check_stream (const OrtrainFakeStream *stream);
cudaError_t fake_cuda_submit (OrtrainFakeStream *stream, std::shared_ptr<Operation> operation);

/* ---- fake-cuda-captures.cc: streams take part in a capture already, or begin to by the wait for an event ---- */

cudaError_t fake_cuda_capture_operation (OrtrainFakeStream *stream, std::shared_ptr<Operation> operation);
cudaError_t fake_cuda_capture_record (OrtrainFakeStream *stream, OrtrainFakeEvent *event);
/* event: recorded in a capture, or for a stream in one */
cudaError_t fake_cuda_capture_wait (OrtrainFakeStream *stream, OrtrainFakeEvent *event);
void fake_cuda_spoil_capture (OrtrainFakeStream *stream);
