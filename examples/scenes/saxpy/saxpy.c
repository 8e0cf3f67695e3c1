#include <tensortap.h>

/* in x, inout y, scalar a */
void saxpy(uint64_t *args)
{
    const float *x = tt_f32(args, 0);
    float *y = tt_f32(args, 1);
    float a = tt_scalar_f32(args, 2);
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        y[i] += a * x[i];
}

/* in y, out total */
void sum(uint64_t *args)
{
    const float *y = tt_f32(args, 0);
    float total = 0;
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        total += y[i];
    tt_f32(args, 1)[0] = total;
}

/* The references of the kernels: the same arguments, but every tensor has elements of type double. */
void saxpy_reference(uint64_t *args)
{
    double a = tt_scalar_f32(args, 2);
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        tt_f64(args, 1)[i] += a * tt_f64(args, 0)[i];
}

void sum_reference(uint64_t *args)
{
    double total = 0;
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        total += tt_f64(args, 0)[i];
    tt_f64(args, 1)[0] = total;
}

/* The expected content of the tensors x, y and total, in the order of scene.toml. */
void golden(uint64_t *args)
{
    const float *x = tt_f32(args, 0);
    float *y = tt_f32(args, 1);
    double total = 0;
    for (uint64_t i = 0; i < tt_numel(args, 0); i++) {
        double exact = 2.5 * (double)x[i] + (double)y[i];
        y[i] = (float)exact;
        total += exact;
    }
    tt_f32(args, 2)[0] = (float)total;
}
