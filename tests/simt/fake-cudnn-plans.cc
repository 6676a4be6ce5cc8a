/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cudnn-descriptors.h"

#include <cstdio>
#include <cstdlib>

/* Execution plans as JSON: the library's version, the device's number, and all that the plan computes, as whole
 * numbers. */

struct Writer
{
  std::string text;

  void
  put (int64_t number)
  {
    text += (text.empty () ? "" : ",") + std::to_string (number);
  }

  void
  put (const std::vector<int64_t> &numbers)
  {
    put ((int64_t) numbers.size ());
    for (int64_t number : numbers)
      put (number);
  }
};

struct Reader
{
  const char *at, *end;
  bool ok = true;

  int64_t
  get ()
  {
    char *next = nullptr;
    const int64_t number = ok && at < end ? strtoll (at, &next, 10) : 0;
    ok = ok && next != nullptr && next != at && next < end && (*next == ',' || *next == ']');
    at = ok ? next + 1 : end;
    return number;
  }

  std::vector<int64_t>
  get_all ()
  {
    std::vector<int64_t> numbers;
    const int64_t n = get ();
    ok = ok && n >= 0 && n <= 64;
    for (int64_t i = 0; ok && i < n; i++)
      numbers.push_back (get ());
    return numbers;
  }
};

std::string
fake_cudnn_write_plan (const FakePlan &plan, size_t version, int device)
{
  Writer to;
  char head[64];
  to.put (plan.engine);
  to.put ((int64_t) plan.graph.tensors.size ());
  for (const FakeTensor &tensor : plan.graph.tensors)
    {
      int64_t bits;
      memcpy (&bits, &tensor.value, sizeof bits);
      to.put (tensor.type);
      to.put (tensor.dims);
      to.put (tensor.strides);
      to.put (tensor.is_virtual);
      to.put (tensor.by_value);
      to.put (bits);
    }
  to.put ((int64_t) plan.graph.operations.size ());
  for (const FakeOperation &operation : plan.graph.operations)
    {
      to.put (operation.type);
      to.put (operation.mode);
      to.put (operation.axis);
      for (int operand : operation.operands)
        to.put (operand);
      to.put (operation.pad);
      to.put (operation.stride);
      to.put (operation.dilation);
      to.put (operation.size);
      to.put (operation.pad_end);
      to.put (operation.nan_stays);
    }
  to.put ((int64_t) plan.numbers.size ());
  for (const auto &number : plan.numbers)
    {
      to.put (number.first);
      to.put (number.second);
    }
  snprintf (head, sizeof head, "{\"cudnnVersion\":%zu,\"cudaDeviceId\":%d,\"plan\":[", version, device);
  return head + to.text + "]}";
}

std::shared_ptr<FakePlan>
fake_cudnn_read_plan (const std::string &text, size_t version, int device)
{
  auto plan = std::make_shared<FakePlan> ();
  size_t found_version = 0;
  int found_device = -1, n_head = 0;
  if (sscanf (text.c_str (), "{\"cudnnVersion\":%zu,\"cudaDeviceId\":%d,\"plan\":[%n", &found_version, &found_device,
              &n_head) != 2 ||
      n_head == 0 || found_version != version || found_device != device)
    return nullptr;
  Reader from = { text.c_str () + n_head, text.c_str () + text.size () };
  plan->engine = from.get ();
  for (int64_t i = from.get (); from.ok && i > 0; i--)
    {
      FakeTensor tensor = {};
      tensor.type = (cudnnDataType_t) from.get ();
      tensor.dims = from.get_all ();
      tensor.strides = from.get_all ();
      tensor.is_virtual = from.get () != 0;
      tensor.by_value = from.get () != 0;
      const int64_t bits = from.get ();
      memcpy (&tensor.value, &bits, sizeof bits);
      plan->graph.tensors.push_back (tensor);
    }
  for (int64_t i = from.get (); from.ok && i > 0; i--)
    {
      FakeOperation operation = {};
      operation.type = (cudnnBackendDescriptorType_t) from.get ();
      operation.mode = (int) from.get ();
      operation.axis = from.get ();
      for (int &operand : operation.operands)
        operand = (int) from.get ();
      operation.pad = from.get_all ();
      operation.stride = from.get_all ();
      operation.dilation = from.get_all ();
      operation.size = from.get_all ();
      operation.pad_end = from.get_all ();
      operation.nan_stays = from.get () != 0;
      plan->graph.operations.push_back (operation);
    }
  for (int64_t i = from.get (); from.ok && i > 0; i--)
    {
      const int64_t id = from.get ();
      plan->numbers[id] = (int) from.get ();
    }
  return from.ok ? plan : nullptr;
}
