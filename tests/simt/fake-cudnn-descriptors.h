/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cudnn.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

/* Types that the two files of the emulated cuDNN share: descriptors as their attributes, and the graph that is
 * executed. */

struct Attribute
{
  cudnnBackendAttributeType_t type;
  int64_t n;
  std::vector<uint8_t> bytes;
};

struct FakeTensor
{
  cudnnDataType_t type;
  std::vector<int64_t> dims, strides;
  bool is_virtual, by_value;
  void *address; /* of tensors that are not virtual */
  double value;  /* of tensors that are given by value */
};

struct FakeOperation
{
  cudnnBackendDescriptorType_t type;
  int mode = 0;
  int64_t axis = -1;
  int operands[4] = { -1, -1, -1, -1 }; /* the results last: c of a product, y of the rest; 3: t */
  std::vector<int64_t> pad, stride, dilation;
  std::vector<int64_t> size, pad_end; /* of pools */
  bool nan_stays = false;
};

struct FakeGraph
{
  std::vector<FakeTensor> tensors;
  std::vector<FakeOperation> operations;
  void *workspace = nullptr;
  size_t workspace_bytes = 0;
};

/* The graph that is executed. numbers: of tensors, by their unique identifiers. */
struct FakePlan
{
  FakeGraph graph;
  std::map<int64_t, int> numbers;
  int64_t engine = 0;
};

struct Descriptor
{
  cudnnBackendDescriptorType_t type;
  bool final = false;
  int device = 0; /* on which it became final: plans are compiled for one */
  std::map<int, Attribute> attributes;
  int64_t engine = 0;             /* of engines and their configurations */
  std::shared_ptr<FakePlan> plan; /* of execution plans */

  bool
  has (int name) const
  {
    return attributes.count (name) != 0;
  }

  template <typename T>
  T
  get (int name, T fallback = T (), int64_t index = 0) const
  {
    const auto found = attributes.find (name);
    T value = fallback;
    if (found != attributes.end () && index < found->second.n)
      memcpy (&value, found->second.bytes.data () + (size_t) index * sizeof (T), sizeof (T));
    return value;
  }

  int64_t
  count (int name) const
  {
    const auto found = attributes.find (name);
    return found != attributes.end () ? found->second.n : 0;
  }

  Descriptor *
  child (int name, int64_t index = 0) const
  {
    return (Descriptor *) get<void *> (name, nullptr, index);
  }

  std::vector<int64_t>
  ints (int name) const
  {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count (name); i++)
      values.push_back (get<int64_t> (name, 0, i));
    return values;
  }
};

void fake_cudnn_compute (FakeGraph *graph);
std::string fake_cudnn_write_plan (const FakePlan &plan, size_t version, int device);
/* NULL: it is of another version or device, or damaged. */
std::shared_ptr<FakePlan> fake_cudnn_read_plan (const std::string &text, size_t version, int device);
