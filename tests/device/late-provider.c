/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "provider/ortrain-provider-module-private.h"

#include <fcntl.h>
#include <gmodule.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A device on the host, for tests: CPU kernels behind an API that behaves like a GPU.
 *
 * Its memory is mapped twice. The addresses that the library gets belong to a mapping that nobody may touch, so that
 * the host crashes where it takes them for its own; streams go through the other one. Each stream is a thread that runs
 * late and out of phase with the others. ORTRAIN_LATE_FAIL=N makes the N-th allocation, and all after it, fail;
 * ORTRAIN_LATE_WITHOUT, names of operators or "all", takes their kernels away. */

#define MEMORY_BYTES ((gsize) 1 << 36) /* of addresses, not of memory */
#define DLPACK_EXTENSION 12
#define PAGE ((gsize) 4096)
#define SMALL_COPY 65536
#define QUEUE_BYTES ((gsize) 1 << 22)

static const OrtrainLibraryFunctions *library;

/* ---- memory ---- */

static guint8 *handles; /* addresses for the library */
static guint8 *memory;  /* addresses for kernels */
static int memory_file;
static GMutex memory_lock;
static GArray *blocks; /* of Block, by offset */
static gint n_allocations, fail_from;

typedef struct
{
  gsize offset, n_bytes;
} Block;

static void
map_memory (void)
{
  memory_file = memfd_create ("ortrain-late-device", MFD_CLOEXEC);
  g_assert_cmpint (memory_file, >=, 0);
  g_assert_cmpint (ftruncate (memory_file, (off_t) MEMORY_BYTES), ==, 0);
  memory = mmap (NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_file, 0);
  handles = mmap (NULL, MEMORY_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_assert_true (memory != MAP_FAILED && handles != MAP_FAILED);
  blocks = g_array_new (FALSE, FALSE, sizeof (Block));
}

static gboolean
is_handle (gconstpointer address)
{
  return (const guint8 *) address >= handles && (const guint8 *) address < handles + MEMORY_BYTES;
}

static gpointer
resolve (gconstpointer address)
{
  return is_handle (address) ? memory + ((const guint8 *) address - handles) : (gpointer) address;
}

static void
late_get_memory (const OrtrainProvider *self, guint64 *total, guint64 *available)
{
  *total = *available = MEMORY_BYTES;
  g_mutex_lock (&memory_lock);
  for (guint i = 0; i < blocks->len; i++)
    *available -= g_array_index (blocks, Block, i).n_bytes;
  g_mutex_unlock (&memory_lock);
}

static gpointer
refuse_memory (gsize n_bytes, GError **error)
{
  guint64 total, available;
  late_get_memory (NULL, &total, &available);
  g_set_error (error, library->device_error_quark (), ORTRAIN_DEVICE_ERROR_NO_MEMORY,
               "Cannot allocate %" G_GSIZE_FORMAT " bytes of memory on the device 'late'; %" G_GUINT64_FORMAT
               " of %" G_GUINT64_FORMAT " bytes are available",
               n_bytes, available, total);
  return NULL;
}

/* Whether this allocation is to fail. They are counted from when the variable changed. */
static gboolean
is_failing (void)
{
  const char *text = g_getenv ("ORTRAIN_LATE_FAIL");
  const gint limit = text != NULL && *text != '\0' ? atoi (text) : G_MAXINT;
  g_mutex_lock (&memory_lock);
  if (limit != fail_from)
    n_allocations = 0;
  fail_from = limit;
  const gboolean failing = ++n_allocations >= limit;
  g_mutex_unlock (&memory_lock);
  return failing;
}

static gpointer
late_allocate (OrtrainProvider *self, OrtrainMemorySpace space, gsize n_bytes, GError **error)
{
  if (is_failing () || n_bytes > MEMORY_BYTES)
    return refuse_memory (n_bytes, error);
  const gsize size = (MAX (n_bytes, 1) + PAGE - 1) / PAGE * PAGE;
  if (space == ORTRAIN_MEMORY_SPACE_HOST)
    {
      gpointer address = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return address != MAP_FAILED ? address : refuse_memory (n_bytes, error);
    }
  g_mutex_lock (&memory_lock);
  gsize offset = PAGE; /* nothing at the beginning */
  guint at = 0;
  for (; at < blocks->len; at++)
    {
      const Block *block = &g_array_index (blocks, Block, at);
      if (block->offset - offset >= size + PAGE)
        break;
      offset = block->offset + block->n_bytes + PAGE; /* a page between blocks */
    }
  const gboolean fits = offset + size <= MEMORY_BYTES;
  Block block = { offset, size };
  if (fits)
    g_array_insert_val (blocks, at, block);
  g_mutex_unlock (&memory_lock);
  return fits ? handles + offset : refuse_memory (n_bytes, error);
}

static void
late_free (OrtrainProvider *self, OrtrainMemorySpace space, gpointer address, gsize n_bytes)
{
  const gsize size = (MAX (n_bytes, 1) + PAGE - 1) / PAGE * PAGE;
  if (address == NULL)
    return;
  if (space == ORTRAIN_MEMORY_SPACE_HOST)
    {
      munmap (address, size);
      return;
    }
  const gsize offset = (gsize) ((guint8 *) address - handles);
  g_mutex_lock (&memory_lock);
  gboolean found = FALSE;
  for (guint i = 0; i < blocks->len && !found; i++)
    if (g_array_index (blocks, Block, i).offset == offset)
      {
        g_assert_cmpuint (g_array_index (blocks, Block, i).n_bytes, ==, size);
        g_array_remove_index (blocks, i);
        found = TRUE;
      }
  g_assert_true (found);
  fallocate (memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) offset, (off_t) size);
  g_mutex_unlock (&memory_lock);
}

/* ---- streams ---- */

typedef enum
{
  OP_CALL,
  OP_COPY,
  OP_FILL,
  OP_RECORD,
  OP_WAIT,
  OP_PAUSE,
  OP_STOP,
  OP_SKIP, /* to the beginning of the queue */
} OpKind;

/* Followed by the operands of a call, or by the bytes of a copy from memory that may change. */
typedef struct
{
  OpKind kind;
  guint32 n_bytes; /* of the operation in the queue */
  union
  {
    OrtrainKernelCall call;
    struct
    {
      gpointer destination;
      gconstpointer source; /* NULL: the bytes that follow */
      gsize n_bytes;
      guint8 byte;
    } copy;
    struct
    {
      OrtrainEvent *event;
      guint64 number;
    } event;
  };
  guint64 payload[];
} Op;

struct _OrtrainStream
{
  GThread *thread;
  GMutex lock;
  GCond changed;
  guint8 *queue;    /* [QUEUE_BYTES] */
  gsize head, tail; /* of all bytes that were ever in it: read, written */
  OrtrainThreadPool *pool;
  OrtrainKernelContext context; /* of the calls that run */
  guint32 random;
};

struct _OrtrainEvent
{
  GMutex lock;
  GCond changed;
  guint64 recorded, reached;
};

typedef struct
{
  OrtrainCpuProvider cpu; /* first: kernels find it at the address of their provider */
  OrtrainProvider *host;
  guint n_streams;
} LateProvider;

static void
run_op (OrtrainStream *stream, Op *op)
{
  stream->random = stream->random * 1664525 + 1013904223;
  if (stream->random >> 28 == 0)
    g_usleep (20 + (stream->random >> 20 & 63));
  switch (op->kind)
    {
    case OP_CALL:
      stream->context = (OrtrainKernelContext){
        .stream = (OrtrainStream *) stream->pool,
        .step = op->call.context->step,
        .fault = op->call.context->fault,
      };
      stream->context.step = resolve (stream->context.step);
      stream->context.fault = resolve (stream->context.fault);
      op->call.context = &stream->context;
      op->call.run (&op->call);
      break;
    case OP_COPY:
      memmove (op->copy.destination, op->copy.source != NULL ? op->copy.source : (gconstpointer) op->payload,
               op->copy.n_bytes);
      break;
    case OP_FILL:
      memset (op->copy.destination, op->copy.byte, op->copy.n_bytes);
      break;
    case OP_RECORD:
      g_mutex_lock (&op->event.event->lock);
      op->event.event->reached = MAX (op->event.event->reached, op->event.number);
      g_cond_broadcast (&op->event.event->changed);
      g_mutex_unlock (&op->event.event->lock);
      break;
    case OP_WAIT:
      g_mutex_lock (&op->event.event->lock);
      while (op->event.event->reached < op->event.number)
        g_cond_wait (&op->event.event->changed, &op->event.event->lock);
      g_mutex_unlock (&op->event.event->lock);
      break;
    case OP_PAUSE:
      g_usleep (20000);
      break;
    case OP_STOP:
    case OP_SKIP:
      break;
    }
}

static gpointer
run_stream (gpointer data)
{
  OrtrainStream *stream = data;
  for (;;)
    {
      g_mutex_lock (&stream->lock);
      while (stream->head == stream->tail)
        g_cond_wait (&stream->changed, &stream->lock);
      Op *op = (Op *) (stream->queue + stream->head % QUEUE_BYTES);
      g_mutex_unlock (&stream->lock);
      const gboolean stop = op->kind == OP_STOP;
      run_op (stream, op);
      g_mutex_lock (&stream->lock);
      stream->head += op->n_bytes;
      g_cond_broadcast (&stream->changed);
      g_mutex_unlock (&stream->lock);
      if (stop)
        return NULL;
    }
}

/* Room for an operation; enqueue() gives it to the stream. Waits until there is some. */
static Op *
reserve (OrtrainStream *stream, OpKind kind, gsize payload)
{
  const gsize n_bytes = (sizeof (Op) + payload + 63) / 64 * 64;
  g_assert_cmpuint (n_bytes, <=, QUEUE_BYTES / 4);
  g_mutex_lock (&stream->lock);
  const gsize left = QUEUE_BYTES - stream->tail % QUEUE_BYTES;
  const gsize skipped = left < n_bytes ? left : 0;
  while (stream->tail + skipped + n_bytes - stream->head > QUEUE_BYTES)
    g_cond_wait (&stream->changed, &stream->lock);
  if (skipped > 0)
    {
      Op *skip = (Op *) (stream->queue + stream->tail % QUEUE_BYTES);
      skip->kind = OP_SKIP;
      skip->n_bytes = (guint32) skipped;
      stream->tail += skipped;
      g_cond_broadcast (&stream->changed);
    }
  g_mutex_unlock (&stream->lock);
  Op *op = (Op *) (stream->queue + stream->tail % QUEUE_BYTES);
  op->kind = kind;
  op->n_bytes = (guint32) n_bytes;
  return op;
}

static void
enqueue (OrtrainStream *stream, const Op *op)
{
  g_mutex_lock (&stream->lock);
  stream->tail += op->n_bytes;
  g_cond_broadcast (&stream->changed);
  g_mutex_unlock (&stream->lock);
}

/* For tests. */
G_MODULE_EXPORT gint ortrain_late_n_waits, ortrain_late_n_awaited_events, ortrain_late_n_captures,
    ortrain_late_n_launches;

static void
drain (OrtrainStream *stream)
{
  g_mutex_lock (&stream->lock);
  while (stream->head != stream->tail)
    g_cond_wait (&stream->changed, &stream->lock);
  g_mutex_unlock (&stream->lock);
}

static gboolean
late_wait (OrtrainProvider *provider, OrtrainStream *stream, GError **error)
{
  g_atomic_int_inc (&ortrain_late_n_waits);
  drain (stream);
  return TRUE;
}

static gboolean
late_await_event (OrtrainProvider *provider, OrtrainEvent *event, GError **error)
{
  g_atomic_int_inc (&ortrain_late_n_awaited_events);
  g_mutex_lock (&event->lock);
  while (event->reached < event->recorded)
    g_cond_wait (&event->changed, &event->lock);
  g_mutex_unlock (&event->lock);
  return TRUE;
}

static gboolean
late_new_stream (OrtrainProvider *provider, OrtrainStream **result, GError **error)
{
  LateProvider *self = (LateProvider *) provider;
  OrtrainStream *stream = g_new0 (OrtrainStream, 1);
  stream->queue = g_malloc (QUEUE_BYTES);
  stream->random = ++self->n_streams * 2654435761u;
  stream->pool = self->n_streams == 1 ? self->cpu.pool : NULL; /* a pool serves one stream at a time */
  g_mutex_init (&stream->lock);
  g_cond_init (&stream->changed);
  stream->thread = g_thread_new ("late-stream", run_stream, stream);
  *result = stream;
  return TRUE;
}

static void
late_free_stream (OrtrainProvider *provider, OrtrainStream *stream)
{
  if (stream == NULL)
    return;
  enqueue (stream, reserve (stream, OP_STOP, 0));
  g_thread_join (stream->thread);
  g_mutex_clear (&stream->lock);
  g_cond_clear (&stream->changed);
  g_free (stream->queue);
  g_free (stream);
}

static gboolean
late_copy (OrtrainProvider *provider, OrtrainStream *stream, gpointer destination, gconstpointer source, gsize n_bytes,
           GError **error)
{
  const gboolean from_host = !is_handle (source);
  if (n_bytes == 0)
    return TRUE;
  if (from_host && n_bytes > SMALL_COPY)
    {
      /* like a driver that has no room to keep the data: after the submitted work, and at once */
      drain (stream);
      memmove (resolve (destination), source, n_bytes);
      return TRUE;
    }
  Op *op = reserve (stream, OP_COPY, from_host ? n_bytes : 0);
  op->copy.destination = resolve (destination);
  op->copy.source = from_host ? NULL : resolve (source);
  op->copy.n_bytes = n_bytes;
  if (from_host)
    memcpy (op->payload, source, n_bytes);
  enqueue (stream, op);
  return TRUE;
}

static gboolean
late_fill (OrtrainProvider *provider, OrtrainStream *stream, gpointer destination, guint8 byte, gsize n_bytes,
           GError **error)
{
  Op *op = reserve (stream, OP_FILL, 0);
  op->copy.destination = resolve (destination);
  op->copy.n_bytes = n_bytes;
  op->copy.byte = byte;
  enqueue (stream, op);
  return TRUE;
}

/* ---- the stream of other libraries ---- */

static OrtrainStream *
get_default_stream (OrtrainProvider *provider)
{
  static gsize stream; /* of the process, as a GPU has one */
  if (g_once_init_enter (&stream))
    {
      OrtrainStream *made;
      late_new_stream (provider, &made, NULL);
      g_once_init_leave (&stream, (gsize) made);
    }
  return (OrtrainStream *) stream;
}

static gboolean
late_await_default_stream (OrtrainProvider *provider, GError **error)
{
  drain (get_default_stream (provider));
  return TRUE;
}

/* For tests: another library writes to memory of the device, some time after this has returned. */
G_MODULE_EXPORT void ortrain_late_write_by_others (OrtrainProvider *provider, gpointer destination,
                                                   gconstpointer source, gsize n_bytes);

void
ortrain_late_write_by_others (OrtrainProvider *provider, gpointer destination, gconstpointer source, gsize n_bytes)
{
  OrtrainStream *stream = get_default_stream (provider);
  enqueue (stream, reserve (stream, OP_PAUSE, 0));
  late_copy (provider, stream, destination, source, n_bytes, NULL);
}

static OrtrainEvent *
late_new_event (OrtrainProvider *provider, GError **error)
{
  OrtrainEvent *event = g_new0 (OrtrainEvent, 1);
  g_mutex_init (&event->lock);
  g_cond_init (&event->changed);
  return event;
}

static void
late_free_event (OrtrainProvider *provider, OrtrainEvent *event)
{
  g_mutex_clear (&event->lock);
  g_cond_clear (&event->changed);
  g_free (event);
}

static void
add_event (OrtrainStream *stream, OpKind kind, OrtrainEvent *event, guint64 number)
{
  Op *op = reserve (stream, kind, 0);
  op->event.event = event;
  op->event.number = number;
  enqueue (stream, op);
}

static gboolean
late_record (OrtrainProvider *provider, OrtrainStream *stream, OrtrainEvent *event, GError **error)
{
  g_mutex_lock (&event->lock);
  const guint64 number = ++event->recorded;
  g_mutex_unlock (&event->lock);
  add_event (stream, OP_RECORD, event, number);
  return TRUE;
}

static gboolean
late_wait_event (OrtrainProvider *provider, OrtrainStream *stream, OrtrainEvent *event, GError **error)
{
  g_mutex_lock (&event->lock);
  const guint64 number = event->recorded;
  g_mutex_unlock (&event->lock);
  add_event (stream, OP_WAIT, event, number);
  return TRUE;
}

/* ---- kernels ---- */

static void
run_copy (const OrtrainKernelCall *call)
{
  const gsize *n_bytes = call->constants;
  memcpy (call->outputs[0], call->inputs[0], *n_bytes);
}

static gboolean
prepare_copy (OrtrainKernelSetup *setup, GError **error)
{
  setup->constants = g_memdup2 (&setup->inputs[0].n_bytes, sizeof setup->inputs[0].n_bytes);
  setup->constants_free = g_free;
  return TRUE;
}

static const OrtrainKernel copy_kernels[] = {
  { .op_type = "Copy", .domain = "org.ortrain", .prepare = prepare_copy, .run = run_copy },
  { .op_type = "Offload", .domain = "org.ortrain", .prepare = prepare_copy, .run = run_copy },
  { .op_type = "Reload", .domain = "org.ortrain", .prepare = prepare_copy, .run = run_copy },
};

static gboolean
late_submit (OrtrainProvider *provider, OrtrainStream *stream, const OrtrainKernelCall *calls, guint n_calls,
             GCancellable *cancellable, GError **error)
{
  for (guint i = 0; i < n_calls; i++)
    {
      const OrtrainKernelCall *call = &calls[i];
      const guint n = (guint) call->n_inputs + call->n_outputs;
      if (cancellable != NULL && g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      Op *op = reserve (stream, OP_CALL, n * sizeof (gpointer));
      gpointer *operands = (gpointer *) op->payload;
      op->call = *call;
      op->call.inputs = (const void *const *) operands;
      op->call.outputs = operands + call->n_inputs;
      op->call.workspace = resolve (call->workspace);
      for (guint k = 0; k < n; k++)
        {
          gconstpointer address = k < call->n_inputs ? call->inputs[k] : call->outputs[k - call->n_inputs];
          if (address != NULL && !is_handle (address) && call->run != run_copy)
            g_error ("Operand %u of step %u is in the memory of the host", k, call->plan_step);
          operands[k] = resolve (address);
        }
      enqueue (stream, op);
    }
  return TRUE;
}

/* Calls with the addresses that they had. */
struct _OrtrainCapture
{
  OrtrainKernelCall *calls;
  gpointer *operands;
  guint n_calls;
};

static OrtrainCapture *
late_capture (OrtrainProvider *provider, OrtrainStream *stream, const OrtrainKernelCall *calls, guint n_calls,
              GError **error)
{
  OrtrainCapture *capture = g_new0 (OrtrainCapture, 1);
  g_atomic_int_inc (&ortrain_late_n_captures);
  gsize n_operands = 0, next = 0;
  for (guint i = 0; i < n_calls; i++)
    n_operands += (gsize) calls[i].n_inputs + calls[i].n_outputs;
  capture->calls = g_memdup2 (calls, n_calls * sizeof *calls);
  capture->operands = g_new (gpointer, n_operands + 1);
  capture->n_calls = n_calls;
  for (guint i = 0; i < n_calls; i++)
    {
      OrtrainKernelCall *call = &capture->calls[i];
      memcpy (capture->operands + next, calls[i].inputs, call->n_inputs * sizeof (gpointer));
      call->inputs = (const void *const *) (capture->operands + next);
      next += call->n_inputs;
      memcpy (capture->operands + next, calls[i].outputs, call->n_outputs * sizeof (gpointer));
      call->outputs = capture->operands + next;
      next += call->n_outputs;
    }
  return capture;
}

static gboolean
late_launch (OrtrainProvider *provider, OrtrainStream *stream, OrtrainCapture *capture, GError **error)
{
  g_atomic_int_inc (&ortrain_late_n_launches);
  return late_submit (provider, stream, capture->calls, capture->n_calls, NULL, error);
}

static void
late_free_capture (OrtrainProvider *provider, OrtrainCapture *capture)
{
  g_free (capture->calls);
  g_free (capture->operands);
  g_free (capture);
}

static const OrtrainKernel *
late_find_kernel (const OrtrainProvider *provider, const char *domain, const char *op_type,
                  const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  const LateProvider *self = (const LateProvider *) provider;
  for (guint i = 0; i < G_N_ELEMENTS (copy_kernels); i++)
    if (g_str_equal (domain, copy_kernels[i].domain) && g_str_equal (op_type, copy_kernels[i].op_type))
      return &copy_kernels[i];
  const char *list = g_getenv ("ORTRAIN_LATE_WITHOUT");
  g_auto (GStrv) without = g_strsplit (list != NULL ? list : "", ",", -1);
  const gboolean all = g_strv_contains ((const char *const *) without, "all") && !g_str_equal (op_type, "Accumulate");
  if (all || g_strv_contains ((const char *const *) without, op_type))
    return NULL;
  return self->host->klass->find_kernel (self->host, domain, op_type, inputs, n_inputs, outputs, n_outputs);
}

static gboolean
late_can_fuse (const OrtrainProvider *provider, const char *domain, const char *op_type, OrtrainDType dtype)
{
  const LateProvider *self = (const LateProvider *) provider;
  return self->host->klass->can_fuse (self->host, domain, op_type, dtype);
}

/* ---- the provider ---- */

static void
late_free_provider (OrtrainProvider *provider)
{
  LateProvider *self = (LateProvider *) provider;
  if (g_atomic_ref_count_dec (&self->host->ref_count))
    self->host->klass->free_provider (self->host);
  g_free (self);
}

static const OrtrainProviderClass late_class = {
  .name = "late",
  .reads_host = FALSE,
  .alignment = { PAGE, PAGE },
  .offload_bytes_per_second = 1e9,
  .dlpack_type = DLPACK_EXTENSION,
  .free_provider = late_free_provider,
  .find_kernel = late_find_kernel,
  .can_fuse = late_can_fuse,
  .allocate = late_allocate,
  .free = late_free,
  .get_memory = late_get_memory,
  .new_stream = late_new_stream,
  .free_stream = late_free_stream,
  .copy = late_copy,
  .fill = late_fill,
  .new_event = late_new_event,
  .free_event = late_free_event,
  .record = late_record,
  .wait_event = late_wait_event,
  .wait = late_wait,
  .await_default_stream = late_await_default_stream,
  .await_event = late_await_event,
  .submit = late_submit,
  .capture = late_capture,
  .launch = late_launch,
  .free_capture = late_free_capture,
};

G_MODULE_EXPORT OrtrainProviderOptions ortrain_late_options; /* of the last with a memory limit; for tests */

static OrtrainProvider *
late_open (const OrtrainProviderOptions *options, GError **error)
{
  if (options->memory_limit != 0)
    ortrain_late_options = *options;
  LateProvider *self = g_new0 (LateProvider, 1);
  self->host = library->new_cpu (options);
  self->cpu = *(const OrtrainCpuProvider *) self->host;
  self->cpu.parent.klass = &late_class;
  const char *alignment = g_getenv ("ORTRAIN_LATE_ALIGNMENT");
  if (alignment != NULL)
    {
      static OrtrainProviderClass other;
      other = late_class;
      other.alignment[ORTRAIN_MEMORY_SPACE_DEVICE] = (gsize) g_ascii_strtoull (alignment, NULL, 10);
      self->cpu.parent.klass = &other;
    }
  g_atomic_ref_count_init (&self->cpu.parent.ref_count);
  return &self->cpu.parent;
}

static const OrtrainProviderModule module = {
  .version = ORTRAIN_MODULE_VERSION,
  .n_bytes = sizeof (OrtrainProviderModule),
  .name = "late",
  .score = -1,
  .open = late_open,
};

G_MODULE_EXPORT const OrtrainProviderModule *ortrain_provider_module (const OrtrainLibraryFunctions *functions);

const OrtrainProviderModule *
ortrain_provider_module (const OrtrainLibraryFunctions *functions)
{
  if (functions->version != ORTRAIN_MODULE_VERSION || functions->n_bytes != sizeof *functions)
    return NULL;
  library = functions;
  map_memory ();
  return &module;
}
