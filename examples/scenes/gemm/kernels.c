#include <tensortap.h>

/* Tiles are views of larger matrices: consecutive rows are tt_stride(args, arg, 0) elements apart. */

/* in a [rows, inner], in b [inner, columns], out c [rows, columns] */
void tile_product(uint64_t *args)
{
    const float *a = tt_f32(args, 0), *b = tt_f32(args, 1);
    float *c = tt_f32(args, 2);
    int64_t rows = (int64_t)tt_dim(args, 2, 0), columns = (int64_t)tt_dim(args, 2, 1), inner = (int64_t)tt_dim(args, 0, 1);
    int64_t row_a = tt_stride(args, 0, 0), row_b = tt_stride(args, 1, 0), row_c = tt_stride(args, 2, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float sum = 0;
            for (int64_t p = 0; p < inner; p++)
                sum += a[i * row_a + p] * b[p * row_b + j];
            c[i * row_c + j] = sum;
        }
}

/* in partial, inout c */
void tile_add(uint64_t *args)
{
    const float *partial = tt_f32(args, 0);
    float *c = tt_f32(args, 1);
    for (uint64_t i = 0; i < tt_numel(args, 1); i++)
        c[tt_offset(args, 1, i)] += partial[tt_offset(args, 0, i)];
}

/* References receive contiguous tensors of double. */
void tile_product_reference(uint64_t *args)
{
    uint64_t rows = tt_dim(args, 2, 0), columns = tt_dim(args, 2, 1), inner = tt_dim(args, 0, 1);
    for (uint64_t place = 0; place < rows * columns; place++) {
        double sum = 0;
        for (uint64_t p = 0; p < inner; p++)
            sum += tt_f64(args, 0)[place / columns * inner + p] * tt_f64(args, 1)[p * columns + place % columns];
        tt_f64(args, 2)[place] = sum;
    }
}

void tile_add_reference(uint64_t *args)
{
    for (uint64_t i = 0; i < tt_numel(args, 1); i++)
        tt_f64(args, 1)[i] += tt_f64(args, 0)[i];
}
