/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-provider-private.h"

/* How fast a device is, from its multiprocessors, clocks and bus: plans are the same for all devices of a kind, and
 * nothing is measured. ORTRAIN_DEVICE_SPEED replaces it. */

/* Floating-point operations of a multiprocessor in a clock, an addition and a multiplication as two. In 16 bits, of
 * products on tensor cores that sum in float32, without sparsity: from NVIDIA's white papers on the architectures (V100
 * 64 FMA · 8 tensor cores, A100 256 · 4, H100 512 · 4, B200 1024 · 4; GA102, AD102 and GB202 have halves for sums in
 * float32). In float32 and float64, of ordinary cores: the table of throughputs in the CUDA programming guide. reached:
 * the part of it that large products reach at the highest clock, which those of 9.0 cannot hold at the limit of their
 * power (650 Tflop/s of 1070). */
static const struct
{
  guint capability; /* from this one on */
  double half, single, twice, reached;
} throughputs[] = {
  { 120, 512, 256, 4, 0.8 }, { 100, 8192, 256, 128, 0.65 }, { 90, 4096, 256, 128, 0.6 },
  { 89, 512, 256, 4, 0.8 },  { 86, 512, 256, 4, 0.8 },      { 80, 2048, 128, 64, 0.75 },
  { 75, 512, 128, 4, 0.8 },  { 70, 1024, 128, 64, 0.8 },    { 0, 128, 128, 4, 0.8 },
};

#define REACHED_BYTES 0.9 /* by copies of large blocks */
#define LAUNCH_SECONDS                                                                                                 \
  2e-6 /* from one kernel of a CUDA graph to the next, with the blocks at its end that leave others idle */

/* For devices that do not say how fast they are: shared memory, virtual devices. */
#define UNKNOWN_BYTES_PER_SECOND 1e12
#define UNKNOWN_HERTZ 1.5e9

static double
ask (int device, enum cudaDeviceAttr attribute)
{
  int value = 0;
  if (cudaDeviceGetAttribute (&value, attribute, device) == cudaSuccess && value > 0)
    return value;
  cudaGetLastError ();
  return 0;
}

void
ortrain_cuda_speed_derive (OrtrainDeviceSpeed *self, int device, const struct cudaDeviceProp *properties)
{
  const guint capability = (guint) (properties->major * 10 + properties->minor);
  const double hertz = 1e3 * ask (device, cudaDevAttrClockRate),
               memory_hertz = 1e3 * ask (device, cudaDevAttrMemoryClockRate);
  const double bus_bytes = ask (device, cudaDevAttrGlobalMemoryBusWidth) / 8;
  const double clocks = MAX (properties->multiProcessorCount, 1) * (hertz > 0 ? hertz : UNKNOWN_HERTZ);
  const double bytes = 2 * memory_hertz * bus_bytes; /* two transfers in a clock */
  guint i = 0;
  while (throughputs[i].capability > capability)
    i++;
  *self = (OrtrainDeviceSpeed){ .bytes_per_second = bytes > 0 ? bytes : UNKNOWN_BYTES_PER_SECOND,
                                .reached_bytes = REACHED_BYTES,
                                .reached_flops = throughputs[i].reached,
                                .launch_seconds = LAUNCH_SECONDS };
  self->flops_per_second[ORTRAIN_DTYPE_FLOAT16] = self->flops_per_second[ORTRAIN_DTYPE_BFLOAT16] =
      clocks * throughputs[i].half;
  self->flops_per_second[ORTRAIN_DTYPE_FLOAT32] = clocks * throughputs[i].single;
  self->flops_per_second[ORTRAIN_DTYPE_FLOAT64] = clocks * throughputs[i].twice;
}
