/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-writer-private.h"

/* RoiAlign (x [N, C, H, W], regions [R, 4], batch [R]) → [R, C, output_height, output_width]: each region is divided
 * into bins, in each of which x is sampled sampling_ratio² times. It is written out as GridSample of x for each region,
 * and an average pooling; the gradient of x and that of the regions are theirs. */

typedef struct
{
  OrtrainWriter writer;
  OrtrainValue *x, *regions; /* scaled, and moved by half a pixel */
  gboolean half_pixel;
  gint64 ratio;
} Roi;

/* For one axis: the coordinates of the samples, from -1 to 1 over x, [R, n], and whether each lies on x, in the type of
 * x. */
typedef struct
{
  OrtrainValue *coordinates, *inside;
} Samples;

static OrtrainValue *
number (const Roi *self, double value)
{
  return ortrain_upgrade_const_like (self->writer.graph, self->writer.node, value, self->x);
}

static OrtrainValue *
cast_like (const Roi *self, OrtrainValue *value)
{
  return ortrain_write2 (&self->writer, "CastLike", value, self->x);
}

/* axis: of x; column: of the regions, where they begin along it. */
static Samples
write_samples (const Roi *self, gint64 axis, gint64 column, gint64 n_bins)
{
  const OrtrainWriter *w = &self->writer;
  OrtrainValue *start = ortrain_write_slice (w, self->regions, 1, column, column + 1, 1);
  OrtrainValue *end = ortrain_write_slice (w, self->regions, 1, column + 2, column + 3, 1);
  OrtrainValue *size = ortrain_write2 (w, "Sub", end, start);
  if (!self->half_pixel) /* no region is smaller than a pixel */
    size = ortrain_write2 (w, "Max", size, number (self, 1));
  const gint64 n = n_bins * self->ratio;
  OrtrainValue *range[] = { ortrain_graph_const_int (w->graph, 0), ortrain_graph_const_int (w->graph, n),
                            ortrain_graph_const_int (w->graph, 1) };
  OrtrainValue *steps = cast_like (self, ortrain_write (w, "Range", range, 3, NULL));
  steps =
      ortrain_write2 (w, "Mul", ortrain_write2 (w, "Add", steps, number (self, .5)), number (self, 1.0 / (double) n));
  OrtrainValue *at = ortrain_write2 (w, "Add", start, ortrain_write2 (w, "Mul", size, steps));
  OrtrainValue *length = cast_like (self, ortrain_write_dim (w, self->x, axis));
  OrtrainValue *inside = ortrain_write2 (w, "And", ortrain_write2 (w, "GreaterOrEqual", at, number (self, -1)),
                                         ortrain_write2 (w, "LessOrEqual", at, length));
  OrtrainValue *doubled = ortrain_write2 (w, "Add", ortrain_write2 (w, "Add", at, at), number (self, 1));
  OrtrainValue *coordinates = ortrain_write2 (w, "Sub", ortrain_write2 (w, "Div", doubled, length), number (self, 1));
  return (Samples){ coordinates, cast_like (self, inside) };
}

/* [R, n] → [R, 1, n] or [R, n, 1]: the new dimension is before or after the last one. */
static OrtrainValue *
unsqueeze (const Roi *self, OrtrainValue *value, gint64 axis)
{
  return ortrain_write2 (&self->writer, "Unsqueeze", value, ortrain_write_ints (&self->writer, &axis, 1));
}

static gboolean
upgrade_roi_align (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainAttributes *attributes = node->attributes;
  Roi self = { .writer = { graph, node }, .x = ortrain_node_input (node, 0) };
  const OrtrainWriter *w = &self.writer;
  OrtrainValue *regions = ortrain_node_input (node, 1), *batch = ortrain_node_input (node, 2);
  const char *mode = ortrain_attributes_get_string (attributes, "coordinate_transformation_mode", "half_pixel");
  const gint64 height = ortrain_attributes_get_int (attributes, "output_height", 1);
  const gint64 width = ortrain_attributes_get_int (attributes, "output_width", 1);
  const double scale = ortrain_attributes_get_float (attributes, "spatial_scale", 1);
  if (self.x == NULL || regions == NULL || batch == NULL)
    return TRUE; /* the check of arity reports it */
  self.half_pixel = opset >= 16 && g_str_equal (mode, "half_pixel");
  self.ratio = ortrain_attributes_get_int (attributes, "sampling_ratio", 0);
  if (!g_str_equal (ortrain_attributes_get_string (attributes, "mode", "avg"), "avg"))
    return ortrain_write_refuse (w, error, "attribute 'mode' must be avg");
  if (self.ratio < 1 || self.ratio > 1024 || height < 1 || height > 1 << 16 || width < 1 || width > 1 << 16)
    return ortrain_write_refuse (
        w, error,
        "attribute 'sampling_ratio' must be from 1 to 1024: where it is 0, the number of samples "
        "depends on the size of each region, which is not supported; export the model with a number, "
        "as in roi_align (…, sampling_ratio=2)");
  regions = ortrain_write2 (w, "Mul", regions, number (&self, scale));
  self.regions = self.half_pixel ? ortrain_write2 (w, "Sub", regions, number (&self, .5)) : regions;
  const Samples x = write_samples (&self, 3, 0, width), y = write_samples (&self, 2, 1, height);

  OrtrainValue *pair[] = { unsqueeze (&self, x.coordinates, 1), unsqueeze (&self, y.coordinates, 2) };
  OrtrainValue *shape = ortrain_write1 (w, "Shape", ortrain_write2 (w, "Add", pair[0], pair[1]));
  for (guint i = 0; i < 2; i++)
    pair[i] = unsqueeze (&self, ortrain_write2 (w, "Expand", pair[i], shape), 3);
  OrtrainValue *grid = ortrain_write_concat (w, pair[0], pair[1], 3);
  OrtrainValue *of_region = ortrain_write2 (w, "Gather", self.x, batch);
  OrtrainAttributes *sampling = ortrain_write_attribute ("align_corners", 0);
  ortrain_attributes_set_string (sampling, "mode", "linear");
  ortrain_attributes_set_string (sampling, "padding_mode", "border");
  OrtrainValue *operands[] = { of_region, grid };
  OrtrainValue *samples = ortrain_write (w, "GridSample", operands, 2, sampling);
  OrtrainValue *inside = ortrain_write2 (w, "Mul", unsqueeze (&self, x.inside, 1), unsqueeze (&self, y.inside, 2));
  samples = ortrain_write2 (w, "Mul", samples, unsqueeze (&self, inside, 1));
  if (self.ratio > 1)
    {
      const gint64 window[] = { self.ratio, self.ratio };
      OrtrainAttributes *pooling = ortrain_attributes_new ();
      ortrain_attributes_set_ints (pooling, "kernel_shape", window, 2);
      ortrain_attributes_set_ints (pooling, "strides", window, 2);
      samples = ortrain_write (w, "AveragePool", &samples, 1, pooling);
    }
  return ortrain_write_finish (w, samples);
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "RoiAlign", .domain = "", .since = 10, .min_inputs = 3, .max_inputs = 3, .min_outputs = 1, .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0i", .upgrade = upgrade_roi_align },
};
/* clang-format on */
ORTRAIN_OP_TABLE (roi, ops);
