#include <tensortap.h>

/* The tile of a matrix that starts at this row and column. */
static tt_tensor tile_of(tt_orch *o, tt_tensor matrix, uint64_t row, uint64_t column, uint64_t tile)
{
    return tt_slice(o, tt_slice(o, matrix, 0, row, tile), 1, column, tile);
}

int orchestrate(tt_orch *o)
{
    uint64_t m = tt_param(o, "m"), n = tt_param(o, "n"), k = tt_param(o, "k"), tile = tt_param(o, "tile");
    if (m % tile || n % tile || k % tile) {
        tt_orch_fail(o, "m, n and k must be multiples of the tile");
        return 1;
    }
    tt_tensor a = tt_arg(o, "a"), b = tt_arg(o, "b"), c = tt_arg(o, "c");
    uint64_t shape[] = { tile, tile };
    for (uint64_t i = 0; i < m && !tt_failed(o); i += tile) {
        tt_scope_begin(o, "rows %u", (unsigned)i);
        for (uint64_t j = 0; j < n; j += tile) {
            tt_tensor into = tile_of(o, c, i, j, tile);
            tt_task last = 0;
            for (uint64_t p = 0; p < k; p += tile) {
                /* The first step writes the tile of C directly. The other steps add to it. */
                tt_tensor product_tile = p == 0 ? into : tt_tensor_new(o, TT_FLOAT32, 2, shape);
                tt_begin(o, "tile_product");
                tt_name(o, "tile %u.%u step %u", (unsigned)i, (unsigned)j, (unsigned)p);
                tt_in(o, tile_of(o, a, i, p, tile));
                tt_in(o, tile_of(o, b, p, j, tile));
                tt_out(o, product_tile);
                tt_task done = tt_submit(o);
                if (p > 0) {
                    tt_begin(o, "tile_add");
                    tt_in(o, product_tile);
                    tt_inout(o, into);
                    tt_after(o, done);
                    tt_after(o, last);
                    done = tt_submit(o);
                }
                last = done;
            }
        }
        tt_scope_end(o);
    }
    return 0;
}

/* The arguments are a, b and c, in the order of scene.toml. */
void golden(uint64_t *args)
{
    uint64_t columns = tt_dim(args, 2, 1), inner = tt_dim(args, 0, 1);
    for (uint64_t place = 0; place < tt_numel(args, 2); place++) {
        double sum = 0;
        for (uint64_t p = 0; p < inner; p++)
            sum += (double)tt_f32(args, 0)[place / columns * inner + p] * (double)tt_f32(args, 1)[p * columns + place % columns];
        tt_f32(args, 2)[place] = (float)sum;
    }
}
