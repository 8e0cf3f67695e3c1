/* The kernels of the scene. tensortap.h is on the include path and is the manual. */
#include <tensortap.h>

/* in x, out scaled, scalar factor */
void scale(uint64_t *args)
{
    const float *x = tt_f32(args, 0);
    float *scaled = tt_f32(args, 1);
    float factor = tt_scalar_f32(args, 2);
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        scaled[i] = factor * x[i];
}

/* in x, out more */
void increment(uint64_t *args)
{
    const float *x = tt_f32(args, 0);
    float *more = tt_f32(args, 1);
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        more[i] = x[i] + 1;
}

/* The reference of scale: the same arguments, but every tensor has elements of type double. */
void scale_reference(uint64_t *args)
{
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        tt_f64(args, 1)[i] = tt_scalar_f32(args, 2) * tt_f64(args, 0)[i];
}

/* The expected content of the scene's tensors x and y, in the order of scene.toml. */
void golden(uint64_t *args)
{
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        tt_f32(args, 1)[i] = 2 * tt_f32(args, 0)[i] + 1;
}
