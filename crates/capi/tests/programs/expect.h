/* What programs of these tests expect; each returns how often it was surprised. */
#ifndef EXPECT_H
#define EXPECT_H

#include <tensortap_record.h>

#include <stdio.h>

static int surprises;

static void expect(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "not as expected: %s (%s)\n", what, tt_last_error());
        surprises++;
    }
}
#define EXPECT(what) expect((what) ? 1 : 0, #what)

#endif
