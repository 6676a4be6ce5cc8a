/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-op-test.h"

/* Nodes as operator sets before 7 had them. */

static void
test_broadcast (void)
{
  OpTest t;
  /* b stands at axis 0 of a: it goes along the rows */
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  OP_IN (&t, FLOAT32, OP_DIMS (2), 10, 20);
  ortrain_attributes_set_int (t.attributes, "broadcast", 1);
  ortrain_attributes_set_int (t.attributes, "axis", 0);
  op_test_go (&t, "", "Add", 1, 6);
  OP_OUT (&t, 0, OP_DIMS (2, 3), 11, 12, 13, 24, 25, 26);
  op_test_end (&t);

  /* from the end, where nothing is said */
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  OP_IN (&t, FLOAT32, OP_DIMS (3), 1, 2, 3);
  ortrain_attributes_set_int (t.attributes, "broadcast", 1);
  op_test_go (&t, "", "Mul", 1, 1);
  OP_OUT (&t, 0, OP_DIMS (2, 3), 1, 4, 9, 4, 10, 18);
  op_test_end (&t);

  g_autoptr (GError) error = NULL;
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  OP_IN (&t, FLOAT32, OP_DIMS (2), 10, 20);
  ortrain_attributes_set_int (t.attributes, "broadcast", 1);
  ortrain_attributes_set_int (t.attributes, "axis", 2);
  g_assert_false (op_test_node (&t, "", "Add", 1, 6, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE);
  op_test_end (&t);
}

/* The slope of a channel, which today would have to be [2, 1]. */
static void
test_prelu (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (1, 2, 2), -1, 2, -3, -4);
  OP_IN (&t, FLOAT32, OP_DIMS (2), 0.5, 0.25);
  op_test_go (&t, "", "PRelu", 1, 6);
  OP_OUT (&t, 0, OP_DIMS (1, 2, 2), -0.5, 2, -0.75, -1);
  op_test_end (&t);
}

static void
test_attributes (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 2), 1, 2, 3, 4);
  ortrain_attributes_set_ints (t.attributes, "shape", (gint64[]){ 4, -1 }, 2);
  op_test_go (&t, "", "Reshape", 1, 1);
  OP_OUT (&t, 0, OP_DIMS (4, 1), 1, 2, 3, 4);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2), 1.5, -2.5);
  ortrain_attributes_set_string (t.attributes, "to", "INT32");
  op_test_go (&t, "", "Cast", 1, 1);
  OP_OUT (&t, 0, OP_DIMS (2), 1, -2);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (1, 1), 1);
  OP_IN (&t, FLOAT32, OP_DIMS (1, 1), 2);
  op_test_go (&t, "", "Concat", 1, 1);
  OP_OUT (&t, 0, OP_DIMS (1, 2), 1, 2);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2), 1, 2);
  ortrain_attributes_set_ints (t.attributes, "paddings", (gint64[]){ 1, 0 }, 2);
  op_test_go (&t, "", "Pad", 1, 1);
  OP_OUT (&t, 0, OP_DIMS (3), 0, 1, 2);
  op_test_end (&t);
}

/* Before 21 with a scale for each group: the node is told by its own name all the same. */
static void
test_groups (void)
{
  g_autoptr (GError) error = NULL;
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (1, 3, 1), 1, 2, 3);
  OP_IN (&t, FLOAT32, OP_DIMS (2), 1, 1);
  OP_IN (&t, FLOAT32, OP_DIMS (2), 0, 0);
  ortrain_attributes_set_int (t.attributes, "num_groups", 2);
  g_assert_false (op_test_node (&t, "", "GroupNormalization", 1, 18, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE);
  g_assert_true (g_str_has_prefix (error->message, "GroupNormalization '"));
  g_assert_nonnull (strstr (error->message, "attribute 'num_groups' is 2, which does not divide the 3 channels"));
  op_test_end (&t);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/old-sets/broadcast", test_broadcast);
  g_test_add_func ("/ops/old-sets/prelu", test_prelu);
  g_test_add_func ("/ops/old-sets/attributes", test_attributes);
  g_test_add_func ("/ops/old-sets/groups", test_groups);
  return g_test_run ();
}
